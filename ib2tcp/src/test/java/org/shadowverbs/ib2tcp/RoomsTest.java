// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import static com.tngtech.archunit.library.Architectures.layeredArchitecture;

import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import org.junit.jupiter.api.Test;

/** Which room may use which. There is no circle: each uses only those that stand before it. */
class RoomsTest {
    private static final String BASE = "org.shadowverbs.ib2tcp";

    @Test
    void arrows() {
        layeredArchitecture().consideringOnlyDependenciesInLayers()
                .layer("system").definedBy(BASE + ".system")
                .layer("wire").definedBy(BASE + ".wire")
                .layer("queue").definedBy(BASE + ".queue")
                .layer("engine").definedBy(BASE + ".engine")
                .layer("reliable").definedBy(BASE + ".reliable")
                .layer("unreliable").definedBy(BASE + ".unreliable")
                .layer("sockets").definedBy(BASE + ".sockets")
                .layer("verbs").definedBy(BASE + ".verbs")
                .whereLayer("system").mayNotAccessAnyLayer()
                .whereLayer("wire").mayOnlyAccessLayers("system")
                .whereLayer("queue").mayOnlyAccessLayers("system")
                .whereLayer("engine").mayOnlyAccessLayers("system", "wire", "queue")
                .whereLayer("reliable").mayOnlyAccessLayers("system", "wire", "queue", "engine")
                .whereLayer("unreliable").mayOnlyAccessLayers("system", "wire", "queue", "engine")
                .whereLayer("sockets").mayOnlyAccessLayers("system", "wire", "queue", "engine", "reliable", "unreliable")
                .whereLayer("verbs").mayOnlyAccessLayers("system", "wire", "queue", "engine", "sockets")
                .check(new ClassFileImporter().withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                        .importPackages(BASE));
    }
}
