# Verbs only; what is built and how is said in meson.build. `make run` and `make test` are all
# that a newcomer needs.
BUILD ?= build
T ?= toml
FUZZ_SECONDS ?= 60
MINUTES ?= 10
SETUP = meson setup
SANITIZE = -Db_sanitize=address,undefined -Db_lundef=false -Dc_args=-fno-sanitize-recover=all

.NOTPARALLEL:
.PHONY: all deps run test test-fast lint fmt bench fault soak fuzz example-multiturn release install clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)
deps:
	tools/deps
run: deps all
	tools/demo $(BUILD)
test: | deps-packages with-npm $(if $(CI),$(BUILD)-asan/build.ninja)
	tools/run-tests $(BUILD) $(if $(CI),$(BUILD)-asan)
test-fast: all
	TIERS="unit fuzz" tools/run-tests $(BUILD)
lint: | deps-test all
	tools/lint $(BUILD)
fmt:
	git ls-files 'src/*.[ch]' 'tests/*.[ch]' | xargs clang-format -i
bench: | deps-test all
	tests/bench/run $(BUILD) $(if $(ROWS),--rows $(ROWS)) $(if $(JSON),--json $(JSON))
fault: | deps-test all
	tools/fault $(BUILD) --jobs $(or $(JOBS),3) $(if $(RECORD),--record $(RECORD))
soak: | deps-test all
	tools/fault $(BUILD) soak $(MINUTES)
fuzz: | deps-test $(BUILD)-fuzz/build.ninja
	ninja -C $(BUILD)-fuzz tests/fuzz/fuzz_$(T)
	cd $(BUILD)-fuzz && mkdir -p found-$(T) && tests/fuzz/fuzz_$(T) \
		-max_total_time=$(FUZZ_SECONDS) found-$(T) $(CURDIR)/tests/fuzz/corpus/$(T)
example-multiturn: all
	node examples/multiturn/run.mjs --build $(BUILD)
release: deps
	tools/release
install: all
	DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild
clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-fuzz $(BUILD)-release

.PHONY: deps-test deps-packages with-npm
deps-test:
	tools/deps test
deps-packages:
	tools/deps test packages
# npm waits for the network, so the build goes on meanwhile
with-npm:
	tools/deps test npm & npm=$$!; $(MAKE) --no-print-directory all && wait $$npm
$(BUILD)/build.ninja:
	$(SETUP) $(BUILD) $(if $(CI),--werror)
$(BUILD)-asan/build.ninja:
	$(SETUP) $(BUILD)-asan --buildtype=debug $(SANITIZE)
$(BUILD)-fuzz/build.ninja:
	CC=clang $(SETUP) $(BUILD)-fuzz -Dfuzz=true $(SANITIZE)
