// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.agent.AddressBook.Home;
import org.shadowverbs.coordinator.agent.AddressBook.HostName;
import org.shadowverbs.coordinator.agent.AddressBook.Route;

final class AddressBookTest {
    @TempDir
    private Path folder;

    @Test
    void linesAreThoseThatThePreloadReads() throws IOException {
        new AddressBook(List.of(new Home("node1", at("10.0.0.1")), new Home("node2", at("fd00::2"))),
                List.of(new HostName("node1.cluster", at("10.0.0.1"))),
                List.of(new Route(AddressBook.ALL, at("10.0.0.1"), 0, at("10.1.0.1"), 0),
                        new Route("node2", at("0.0.0.0"), 5000, at("0.0.0.0"), 6000),
                        new Route(AddressBook.ALL, at("fd00::2"), 0, at("fd01::2"), 0))).write(folder.resolve("agent.sock"));
        assertEquals("""
                origin node1 10.0.0.1
                origin node2 fd00:0:0:0:0:0:0:2
                name node1.cluster 10.0.0.1
                * 10.0.0.1 0 10.1.0.1 0
                node2 0.0.0.0 5000 0.0.0.0 6000
                * fd00:0:0:0:0:0:0:2 0 fd01:0:0:0:0:0:0:2 0
                """, Files.readString(folder.resolve("addresses")));
    }

    /** A program that reads it meanwhile has one of both whole: it is another file, under the same name. */
    @Test
    void isReplacedAsAWholeAndForgotten() throws IOException {
        final Path socket = folder.resolve("agent.sock");
        final Path file = folder.resolve("addresses");
        new AddressBook(List.of(), List.of(new HostName("a", at("10.0.0.1"))), List.of()).write(socket);
        final Object first = Files.getAttribute(file, "unix:ino");
        final Path kept = Files.createLink(folder.resolve("kept"), file);
        new AddressBook(List.of(), List.of(), List.of()).write(socket);
        assertEquals("", Files.readString(file));
        assertFalse(first.equals(Files.getAttribute(file, "unix:ino")));
        assertEquals("name a 10.0.0.1\n", Files.readString(kept));
        assertEquals(PosixFilePermissions.fromString("rw-------"), Files.getPosixFilePermissions(file));
        try (Stream<Path> left = Files.list(folder)) {
            assertEquals(2, left.count(), "nothing else is left there");
        }
        AddressBook.forget(socket);
        AddressBook.forget(socket);
        assertTrue(Files.notExists(file));
    }

    @Test
    void whatNoLineCanSayIsRefused() throws IOException {
        final InetAddress here = at("10.0.0.1");
        final InetAddress v6 = at("fd00::1");
        refused("port 80 can't become port 0", () -> new Route("*", here, 80, here, 0));
        refused("port 0 can't become port 80", () -> new Route("*", here, 0, here, 80));
        refused("not a port: 65536", () -> new Route("*", here, 65536, here, 1));
        refused("not a port: -1", () -> new Route("*", here, 1, here, -1));
        refused("10.0.0.1 can't become fd00:0:0:0:0:0:0:1, which is of another version of IP",
                () -> new Route("*", here, 0, v6, 0));
        refused("not a name of a host: \"a b\"", () -> new HostName("a b", here));
        refused("not a name of a host: \"\"", () -> new Home("", here));
        refused("not a name of a host: \"a\nb\"", () -> new Route("a\nb", here, 0, here, 0));
        final InetAddress link = at("fe80::1");
        refused("fe80:0:0:0:0:0:0:1 is of one link only", () -> new Home("a", link));
    }

    private static void refused(final String message, final Runnable made) {
        assertEquals(message, assertThrows(IllegalArgumentException.class, made::run).getMessage());
    }

    private static InetAddress at(final String address) throws UnknownHostException {
        return InetAddress.getByName(address);
    }
}
