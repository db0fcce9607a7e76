// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator;

import static com.tngtech.archunit.library.Architectures.layeredArchitecture;

import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import org.junit.jupiter.api.Test;

/** Which room may use which. There is no circle: each uses only those that stand before it; agent and coordinator do not know each other. */
class RoomsTest {
    private static final String BASE = "org.shadowverbs.coordinator";

    @Test
    void arrows() {
        layeredArchitecture().consideringOnlyDependenciesInLayers()
                .layer("system").definedBy(BASE + ".system")
                .layer("store").definedBy(BASE + ".store")
                .layer("protocol").definedBy(BASE + ".protocol")
                .layer("client").definedBy(BASE + ".client")
                .layer("images").definedBy(BASE + ".images")
                .layer("memory").definedBy(BASE + ".memory")
                .layer("process").definedBy(BASE + ".process")
                .layer("manifest").definedBy(BASE + ".manifest")
                .layer("levels").definedBy(BASE + ".levels")
                .layer("agent").definedBy(BASE + ".agent")
                .layer("server").definedBy(BASE + ".server")
                .layer("cli").definedBy(BASE + ".cli")
                .whereLayer("system").mayNotAccessAnyLayer()
                .whereLayer("store").mayOnlyAccessLayers("system")
                .whereLayer("protocol").mayOnlyAccessLayers("system")
                .whereLayer("client").mayOnlyAccessLayers("protocol")
                .whereLayer("images").mayOnlyAccessLayers("system", "protocol")
                .whereLayer("memory").mayOnlyAccessLayers("system", "protocol")
                .whereLayer("process").mayOnlyAccessLayers("system", "protocol", "images", "memory")
                .whereLayer("manifest").mayOnlyAccessLayers("protocol", "client", "process")
                .whereLayer("levels").mayOnlyAccessLayers("protocol", "images", "process", "manifest")
                .whereLayer("agent").mayOnlyBeAccessedByLayers("cli")
                .whereLayer("server").mayOnlyAccessLayers("protocol", "client", "store", "images", "process", "manifest", "levels")
                .whereLayer("cli").mayNotBeAccessedByAnyLayer()
                .check(new ClassFileImporter().withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                        .importPackages(BASE));
    }
}
