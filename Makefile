# What people and CI run. Everything that a command needs is installed by it (scripts/need.sh).

.PHONY: help serve quick test soak bench clients dist needs fmt check clean

help:
	@echo "make serve   build the server and run it on ./data; ARGS='...' adds options"
	@echo "make quick   checks and quick tests of what differs from main: for the inner loop"
	@echo "make test    formatting, rules, clippy, all tests, client drivers: what CI runs"
	@echo "make soak    the long tests"
	@echo "make bench   load against the server and its peers; ARGS='...' adds options"
	@echo "make clients tests with drivers of every language and with applications"
	@echo "make dist    the release: tarball and Debian package in target/dist"
	@echo "make needs   install what the others need, and nothing else"
	@echo "make fmt     format the code"
	@echo "make check   formatting, rules and clippy only"
	@echo "make clean   remove what was built"

serve:
	@scripts/serve.sh $(ARGS)

quick:
	@scripts/quick.sh

test:
	@scripts/test.sh

soak:
	@scripts/soak.sh

bench:
	@scripts/bench.sh $(ARGS)

clients:
	@scripts/clients.sh --all

dist:
	@scripts/dist.sh

needs:
	@scripts/need.sh rust cc base mariadb postgresql memcached netcat strace memcached-tools go python moto applications mediawiki node browser sysbench java valgrind cargo-deny

fmt:
	@cargo fmt
	@cargo fmt --manifest-path clients/python/Cargo.toml

check:
	@cargo fmt --check
	@cargo fmt --manifest-path clients/python/Cargo.toml --check
	@cargo xtask check
	@cargo clippy --locked --workspace --all-targets -- -D warnings

clean:
	@cargo clean
