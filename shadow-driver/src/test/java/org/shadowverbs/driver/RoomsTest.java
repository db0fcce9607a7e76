// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import static com.tngtech.archunit.library.Architectures.layeredArchitecture;

import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import org.junit.jupiter.api.Test;

/** Which room may use which. There is no circle: each uses only those that stand before it. */
class RoomsTest {
    private static final String BASE = "org.shadowverbs.driver";

    @Test
    void arrows() {
        layeredArchitecture().consideringOnlyDependenciesInLayers()
                .layer("nativelib").definedBy(BASE + ".nativelib")
                .layer("backend").definedBy(BASE + ".backend")
                .layer("model").definedBy(BASE + ".model")
                .layer("drain").definedBy(BASE + ".drain")
                .layer("xrc").definedBy(BASE + ".xrc")
                .layer("verbs").definedBy(BASE + ".verbs")
                .layer("reattach").definedBy(BASE + ".reattach")
                .layer("checkpoint").definedBy(BASE + ".checkpoint")
                .layer("start").definedBy(BASE)
                .whereLayer("nativelib").mayNotAccessAnyLayer()
                .whereLayer("backend").mayOnlyAccessLayers("nativelib")
                .whereLayer("model").mayOnlyAccessLayers("nativelib", "backend")
                .whereLayer("drain").mayOnlyAccessLayers("nativelib", "backend", "model")
                .whereLayer("xrc").mayOnlyAccessLayers("nativelib", "backend", "model", "drain")
                .whereLayer("verbs").mayOnlyAccessLayers("nativelib", "backend", "model", "xrc")
                .whereLayer("reattach").mayOnlyAccessLayers("nativelib", "backend", "model", "drain", "xrc", "verbs")
                .whereLayer("checkpoint").mayOnlyBeAccessedByLayers("start")
                .check(new ClassFileImporter().withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                        .importPackages(BASE));
    }
}
