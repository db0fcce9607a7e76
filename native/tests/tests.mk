# SPDX-License-Identifier: Apache-2.0
# The tests: programs that load the library together with a mock of libibverbs and a stand-in for the driver.

TESTS := chain gate checkpoint srq xrc unreliable grh region cq_ex memory window events cm process tcp turns dlsym between program address_table addresses
TEST_DIR := $(BUILD)/tests
# Not optimized: the compiler takes more of the time of these than they do.
TEST_CFLAGS := $(CPPFLAGS) -Itests $(filter-out -Wmissing-prototypes -fvisibility=hidden,$(CFLAGS)) -O0
TEST_PROGRAMS := $(TESTS:%=$(TEST_DIR)/%)
TEST_LIBRARIES := $(TEST_DIR)/libibverbs.so.1 $(TEST_DIR)/libjvm.so $(TEST_DIR)/librdmacm.so.1 \
	$(TEST_DIR)/libbetween.so

$(TEST_DIR):
	mkdir -p $@

# What several tests have in them.
$(TEST_DIR)/fixture.o: tests/fixture.c tests/test.h tests/mock.h tests/driver.h include/shadowverbs.h | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -c -o $@ $<

$(TEST_DIR)/driver.o: tests/driver.c tests/test.h tests/driver.h include/shadowverbs.h | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -c -o $@ $<

$(TEST_DIR)/libibverbs.so.1: tests/mock.c tests/mock.map tests/mock.h include/shadowverbs.h $(LIBRARY) | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -shared -Wl,-soname,libibverbs.so.1,--version-script,tests/mock.map -o $@ $< -L$(BUILD) -lshadowverbs

$(TEST_DIR)/libjvm.so: tests/jvm.c tests/driver.h | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -shared -Wl,-soname,libjvm.so -o $@ $<

$(TEST_DIR)/librdmacm.so.1: tests/mock_rdmacm.c $(LIBRARY) | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -shared -Wl,-soname,librdmacm.so.1 -o $@ $< -L$(BUILD) -lshadowverbs

$(TEST_DIR)/libbetween.so: tests/libbetween.c tests/libbetween.h | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -shared -Wl,-soname,libbetween.so -o $@ $<

# Without libibverbs, which it loads.
$(TEST_DIR)/dlsym: tests/dlsym.c tests/libbetween.h $(TEST_DIR)/driver.o tests/test.h tests/driver.h $(LIBRARY) $(TEST_LIBRARIES)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -rdynamic -o $@ $< $(TEST_DIR)/driver.o -L$(BUILD) -lshadowverbs -L$(TEST_DIR) -lbetween -lpthread -ldl

# A library between ours and libibverbs.
$(TEST_DIR)/between: tests/between.c tests/libbetween.h $(TEST_DIR)/driver.o tests/test.h tests/driver.h $(LIBRARY) $(TEST_LIBRARIES)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -rdynamic -o $@ $< $(TEST_DIR)/driver.o -L$(BUILD) -lshadowverbs -L$(TEST_DIR) -lbetween -Wl,--no-as-needed -l:libibverbs.so.1 \
		-lpthread -ldl

# Has what it tests in it.
$(TEST_DIR)/region: tests/region.c src/objects/region.c src/objects/region.h tests/test.h | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -O1 -o $@ $< -lpthread

# Has what it tests in it.
ADDRESS_TABLE := src/address/address_table.c src/address/address_sharing.c
$(TEST_DIR)/address_table: tests/address_table.c $(ADDRESS_TABLE) $(ADDRESS_TABLE:.c=.h) tests/test.h | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -O1 -o $@ $(filter %.c,$^)

$(TEST_DIR)/%: tests/%.c $(TEST_DIR)/fixture.o $(TEST_DIR)/driver.o tests/test.h tests/mock.h tests/driver.h $(LIBRARY) $(TEST_LIBRARIES)
	@echo '  TEST  $@'
	@$(CC) $(TEST_CFLAGS) -rdynamic -o $@ $< $(TEST_DIR)/fixture.o $(TEST_DIR)/driver.o -L$(BUILD) -lshadowverbs -L$(TEST_DIR) -l:libibverbs.so.1 -lpthread -ldl

include restore-init/sources.mk
# With the sanitizers of this build, but for ThreadSanitizer's: its process has no other thread, and would have one of the sanitizer's,
# with which no user namespace can be made.
OF_RESTORE_INIT = $(CC) $(filter-out -Wmissing-prototypes -fvisibility=hidden -Wshadow -fsanitize=thread,$(CFLAGS)) -o $@ $(filter %.c,$^)
$(TEST_DIR)/shadowverbs-job-root: $(JOB_ROOT:%=restore-init/%) $(wildcard restore-init/*.h) | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(OF_RESTORE_INIT)

# Has what it tests in it.
$(TEST_DIR)/pmi: tests/pmi.c $(PMI:%=restore-init/%) $(wildcard restore-init/*.h) | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(OF_RESTORE_INIT)

$(TEST_DIR)/shadowverbs-rsh: $(RSH:%=restore-init/%) $(wildcard restore-init/*.h) | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(OF_RESTORE_INIT)

$(TEST_DIR)/shadowverbs-rshd: $(RSHD:%=restore-init/%) $(wildcard restore-init/*.h) | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(OF_RESTORE_INIT)

$(TEST_DIR)/rsh: tests/rsh.c $(AGENT:%=restore-init/%) restore-init/messages.c restore-init/say.c $(wildcard restore-init/*.h) | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(OF_RESTORE_INIT)

$(TEST_DIR)/shadowverbs-tcp-hold: $(TCP_HOLD:%=restore-init/%) restore-init/tcp-hold.h | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(OF_RESTORE_INIT)

$(TEST_DIR)/shadowverbs-tcp-release: $(TCP_RELEASE:%=restore-init/%) restore-init/tcp-hold.h restore-init/tcp-quiet.h | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(OF_RESTORE_INIT)

$(TEST_DIR)/tcp_hold: tests/tcp_hold.c tests/tcp_connection.c tests/tcp_connection.h | $(TEST_DIR)
	@echo '  TEST  $@'
	@$(OF_RESTORE_INIT)

check: $(TEST_PROGRAMS) $(TEST_DIR)/shadowverbs-job-root $(TEST_DIR)/pmi $(TEST_DIR)/rsh $(TEST_DIR)/shadowverbs-rsh \
		$(TEST_DIR)/shadowverbs-rshd $(TEST_DIR)/shadowverbs-tcp-hold $(TEST_DIR)/shadowverbs-tcp-release \
		$(TEST_DIR)/tcp_hold
	@tests/rooms
	@tests/coverage $(LIBRARY)
	@$(if $(SAN),IDS=scrambled) tests/run $(TEST_DIR) $(BUILD) $(TESTS)
	@$(if $(SAN),,$(MAKE) -s -C program check)
	@tests/job-root $(TEST_DIR)/shadowverbs-job-root
	@echo pmi
	@ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 timeout 180 $(TEST_DIR)/pmi
	@echo rsh
	@ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 timeout 180 $(TEST_DIR)/rsh $(TEST_DIR)
	@echo tcp_hold
	@ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1 timeout 180 $(TEST_DIR)/tcp_hold $(TEST_DIR)/shadowverbs-tcp-hold \
		$(TEST_DIR)/shadowverbs-tcp-release
