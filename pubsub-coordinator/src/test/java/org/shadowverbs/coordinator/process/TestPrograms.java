// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.concurrent.locks.LockSupport;

/** Small C programs that tests run, and waits with a deadline. */
final class TestPrograms {
    private static final Duration DEADLINE = Duration.ofSeconds(20);
    private static final long POLL_NANOS = 2_000_000;

    /** Prints 0, 1, 2, ... one in 5 ms, checking its memory; ends with the status given at the number given. */
    private static final String COUNTER = """
            #include <stdio.h>
            #include <stdlib.h>
            #include <string.h>
            #include <time.h>
            int main(int argc, char **argv)
            {
            	long size = atol(argv[3]) << 20, at = 0;
            	unsigned char *memory = malloc(size + 1);
            	struct timespec pause = { 0, 5000000 };
            	for (long i = 0; i < size; i++)
            		memory[i] = i * 7 % 251;
            	for (int i = 0; i < atoi(argv[1]); i++) {
            		for (int n = 0; n < 4096 && size; n++, at = (at + 4099) % size)
            			if (memory[at] != at * 7 % 251)
            				return 99;
            		printf("%d\\n", i);
            		fflush(stdout);
            		nanosleep(&pause, NULL);
            	}
            	return atoi(argv[2]);
            }
            """;

    /**
     * Changes memory in all the ways in which it can change, and checks all of it against what it ought to hold; prints the number
     * of each 50th step, and "wrong ..." and ends with 99 when a page holds something else. Gives away a userfaultfd of its own
     * first: prints its number, and goes on when the file exists that its argument names.
     */
    private static final String CHANGES = """
            #define _GNU_SOURCE
            #include <fcntl.h>
            #include <stdint.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <string.h>
            #include <sys/mman.h>
            #include <sys/syscall.h>
            #include <sys/wait.h>
            #include <time.h>
            #include <unistd.h>
            enum { REGIONS = 6, PAGES = 600, PAGE = 4096 };
            static char *regions[REGIONS];
            static uint32_t generation[REGIONS][PAGES];
            static char readonly[REGIONS];
            static uint64_t state = 88172645463325252ULL;
            static uint32_t any(uint32_t n)
            {
            	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            	return (state >> 11) % n;
            }
            static uint64_t word(int r, int p, int w)
            {
            	uint32_t g = generation[r][p];
            	return g ? (g * 2654435761ULL + r * 1009 + p) * (w + 1) : 0;
            }
            static void fill(int r, int p)
            {
            	generation[r][p]++;
            	for (int w = 0; w < PAGE / 8; w += 37)
            		((uint64_t *)(regions[r] + p * PAGE))[w] = word(r, p, w);
            }
            static void check(int r, int p, int step)
            {
            	for (int w = 0; w < PAGE / 8; w += 37)
            		if (((uint64_t *)(regions[r] + p * PAGE))[w] != word(r, p, w)) {
            			printf("wrong at step %d: region %d page %d word %d\\n", step, r, p, w);
            			fflush(stdout);
            			_exit(99);
            		}
            }
            static void *map(void *at)
            {
            	return mmap(at, PAGES * PAGE, PROT_READ | PROT_WRITE,
            		    MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
            }
            int main(int argc, char **argv)
            {
            	struct timespec pause = { 0, 200000 };
            	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
            	for (int r = 0; r < REGIONS; r++)
            		regions[r] = map(NULL);
            	madvise(regions[0], PAGES * PAGE, MADV_HUGEPAGE);
            	printf("%d\\n", fd);
            	fflush(stdout);
            	while (access(argv[1], F_OK))
            		nanosleep(&pause, NULL);
            	close(fd);
            	for (int step = 1;; step++) {
            		int r = any(REGIONS), p = any(PAGES), what = any(400);
            		if (what == 0 && !readonly[r]) {
            			int n = 1 + any(PAGES - p);
            			madvise(regions[r] + p * PAGE, n * PAGE, MADV_DONTNEED);
            			memset(generation[r] + p, 0, n * sizeof(uint32_t));
            		} else if (what == 1) {
            			map(regions[r]);
            			memset(generation[r], 0, sizeof(generation[r]));
            			readonly[r] = 0;
            		} else if (what == 2) {
            			char *to = map(NULL);
            			regions[r] = mremap(regions[r], PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
            		} else if (what == 3) {
            			readonly[r] = !readonly[r];
            			mprotect(regions[r], PAGES * PAGE, readonly[r] ? PROT_READ : PROT_READ | PROT_WRITE);
            		} else if (what == 4) {
            			pid_t child = fork();
            			if (!child) {
            				if (!readonly[r])
            					fill(r, p);
            				_exit(0);
            			}
            			waitpid(child, NULL, 0);
            		} else if (what == 5) {
            			for (int i = 0; i < REGIONS; i++)
            				for (int j = 0; j < PAGES; j++)
            					check(i, j, step);
            		} else if (!readonly[r]) {
            			fill(r, p);
            		}
            		check(any(REGIONS), any(PAGES), step);
            		if (step % 50 == 0) {
            			printf("%d\\n", step);
            			fflush(stdout);
            			nanosleep(&pause, NULL);
            		}
            	}
            }
            """;

    /** Two processes that take turns at a counter in shared memory; the parent prints it until the number given. */
    private static final String TURNS = """
            #include <stdio.h>
            #include <stdlib.h>
            #include <sys/mman.h>
            #include <sys/prctl.h>
            #include <signal.h>
            #include <time.h>
            #include <unistd.h>
            int main(int argc, char **argv)
            {
            	volatile int *turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            	struct timespec pause = { 0, 1000000 };
            	int other = fork();
            	if (!other)
            		prctl(PR_SET_PDEATHSIG, SIGKILL);
            	if (argc > 2 && other && !fork())
            		pause.tv_sec = 1000;
            	while (*turn < atoi(argv[1])) {
            		if (*turn % 2 == !other) {
            			if (other) {
            				printf("%d\\n", *turn / 2);
            				fflush(stdout);
            			}
            			++*turn;
            		}
            		nanosleep(&pause, NULL);
            	}
            	return other ? 5 : 0;
            }
            """;

    /** Runs a program on a pseudo terminal, as mpirun does, prints what that says, and ends with its status. */
    private static final String TERMINAL = """
            #include <errno.h>
            #include <pty.h>
            #include <sys/wait.h>
            #include <unistd.h>
            int main(int argc, char **argv)
            {
            	char text[512];
            	int master, status;
            	ssize_t n;
            	pid_t child = forkpty(&master, NULL, NULL, NULL);
            	if (!child) {
            		execv(argv[1], argv + 1);
            		_exit(127);
            	}
            	while ((n = read(master, text, sizeof(text))) > 0 || errno == EINTR)
            		if (n > 0 && write(1, text, n) != n)
            			return 98;
            	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 97;
            }
            """;

    /** Reads one byte from the descriptor given whenever it gets SIGUSR1 and prints it, as a rank its verdict. */
    private static final String LISTENER = """
            #include <stdio.h>
            #include <stdlib.h>
            #include <unistd.h>
            int main(int argc, char **argv)
            {
            	char byte;
            	puts("ready");
            	fflush(stdout);
            	while (read(atoi(argv[1]), &byte, 1) == 1) {
            		printf("got %c\\n", byte);
            		fflush(stdout);
            	}
            	puts("end");
            	return 3;
            }
            """;

    /**
     * Opens what its argument says and prints "ready": what is to be refused by name, or, with "tcp", a connection
     * between the two processes, which then count in turns. One end asks whether the other is alive, and gives it up after 3 s.
     */
    private static final String OPENER = """
            #include <fcntl.h>
            #include <linux/rtnetlink.h>
            #include <netinet/in.h>
            #include <netinet/tcp.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <string.h>
            #include <sys/shm.h>
            #include <sys/socket.h>
            #include <sys/un.h>
            #include <time.h>
            #include <unistd.h>
            static int turns(int fd, int first, int count)
            {
            	struct timespec pause = { 0, 2000000 };
            	int value = 0, before = -1;
            	if (first && write(fd, &value, sizeof(value)) < 0)
            		return 98;
            	while (read(fd, &value, sizeof(value)) == sizeof(value)) {
            		if (value <= before)
            			return 97;
            		before = value++;
            		if (first) {
            			printf("%d\\n", value / 2 - 1);
            			fflush(stdout);
            			if (value == 2 * count)
            				return 8;
            		}
            		nanosleep(&pause, NULL);
            		if (write(fd, &value, sizeof(value)) < 0)
            			return 98;
            	}
            	return 0;
            }
            int main(int argc, char **argv)
            {
            	int pair[2];
            	if (!strcmp(argv[1], "tcp")) {
            		struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
            		socklen_t size = sizeof(address);
            		int listener = socket(AF_INET, SOCK_STREAM, 0);
            		listen(listener, 1);
            		getsockname(listener, (struct sockaddr *)&address, &size);
            		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            		if (!fork()) {
            			int fd = socket(AF_INET, SOCK_STREAM, 0);
            			int keep_alive[3] = { 1, 1, 2 };
            			close(listener);
            			setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &keep_alive[0], sizeof(int));
            			setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keep_alive[0], sizeof(int));
            			setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &keep_alive[1], sizeof(int));
            			setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &keep_alive[2], sizeof(int));
            			connect(fd, (struct sockaddr *)&address, size);
            			return turns(fd, 0, 0);
            		}
            		int fd = accept(listener, NULL, NULL);
            		if (argc > 2 && !fork())
            			return turns(fd, 1, atoi(argv[2]));
            		if (argc > 2)
            			close(fd);
            		return argc > 2 ? pause() : turns(fd, 1, 300);
            	} else if (!strcmp(argv[1], "unix")) {
            		socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
            		if (fork()) {
            			close(pair[0]);
            			read(pair[1], pair, 1);
            			return 0;
            		}
            		close(pair[1]);
            	} else if (!strcmp(argv[1], "connected")) {
            		struct sockaddr_un address = { .sun_family = AF_UNIX };
            		strcpy(address.sun_path, argv[2]);
            		if (connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof(address)))
            			return 96;
            	} else if (!strcmp(argv[1], "device")) {
            		open(argv[2], O_RDWR);
            	} else if (!strcmp(argv[1], "shm")) {
            		int id = shmget(IPC_PRIVATE, 4096, 0600);
            		shmat(id, NULL, 0);
            		shmctl(id, IPC_RMID, NULL);
            	} else if (!strcmp(argv[1], "netlink")) {
            		struct {
            			struct nlmsghdr header;
            			struct rtgenmsg message;
            		} links = { { sizeof(links), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP }, { AF_PACKET } };
            		struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
            		int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
            		sendto(fd, &links, sizeof(links), 0, (struct sockaddr *)&kernel, sizeof(kernel));
            	} else if (!strcmp(argv[1], "deleted")) {
            		int fd = open(argv[2], O_RDWR | O_CREAT, 0600);
            		ftruncate(fd, 65l << 20);
            		unlink(argv[2]);
            	}
            	puts("ready");
            	fflush(stdout);
            	pause();
            	return 0;
            }
            """;

    private final Path folder;

    TestPrograms(final Path folder) {
        this.folder = folder;
    }

    String counter() throws IOException, InterruptedException {
        return compile("counter", COUNTER);
    }

    String changes() throws IOException, InterruptedException {
        return compile("changes", CHANGES);
    }

    String turns() throws IOException, InterruptedException {
        return compile("turns", TURNS);
    }

    String terminal() throws IOException, InterruptedException {
        return compile("terminal", TERMINAL);
    }

    String listener() throws IOException, InterruptedException {
        return compile("listener", LISTENER);
    }

    String opener() throws IOException, InterruptedException {
        return compile("opener", OPENER);
    }

    /** A command for a process that can be saved: where this session is led from outside, as leader of another. */
    static List<String> command(final String... command) {
        final List<String> all = new ArrayList<>(List.of(command));
        try {
            if (Proc.ids(ProcessHandle.current().pid()).ownSession() == 0) {
                all.addFirst("setsid");
            }
        } catch (final IOException e) {
            throw new AssertionError(e);
        }
        return all;
    }

    private String compile(final String name, final String source) throws IOException, InterruptedException {
        final Path program = folder.resolve(name);
        if (!Files.exists(program)) {
            final Path file = Files.writeString(folder.resolve(name + ".c"), source);
            final CriuCommand.Result result = CriuCommand.run(
                    List.of("gcc", "-O1", "-o", program.toString(), file.toString()), DEADLINE);
            if (result.status() != 0) {
                throw new IOException("gcc: " + result.output());
            }
        }
        return program.toString();
    }

    static void await(final String what, final BooleanSupplier condition) {
        final long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - deadline > 0) {
                throw new AssertionError("waited " + DEADLINE.toSeconds() + " s for " + what);
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    static void awaitLines(final Path file, final int count) {
        await(count + " lines in " + file, () -> lines(file).size() >= count);
    }

    static List<String> lines(final Path file) {
        try {
            return Files.exists(file) ? Files.readAllLines(file) : List.of();
        } catch (final IOException e) {
            throw new AssertionError(e);
        }
    }
}
