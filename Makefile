# Sluice: `make run` builds it and runs the flight example, `make test` runs all tests. Both install
# what is missing on a Debian machine that has Go.

GO      ?= go
PKGS    := ./...
# Packages whose tests run the whole program in many processes, one package after the other, since they
# need both cores.
PROCESSES := ^sluice/(cmd/sluice|internal/realtest|internal/mesostest)$$
BIN     := bin/sluice

.PHONY: build run test lint bench setup clean fuzz

build: setup
	$(GO) build -trimpath -o $(BIN) ./cmd/sluice

run: build
	$(BIN) run examples/flights/flights.xml

test: build lint
	@scripts/install-packages $(ZOOKEEPER)
	$(GO) test -race -tags invariants $$($(GO) list $(PKGS) | grep -vE '$(PROCESSES)')
	$(GO) test -tags invariants -p 1 -timeout 20m $$($(GO) list $(PKGS) | grep -E '$(PROCESSES)')
	$(GO) test ./internal/sim # the race detector leaves time for few seeds
	$(GO) test -run NothingIsAllocated ./operators/expr # the race detector allocates
	@scripts/install-packages g++
	cd bench && $(GO) test .

lint:
	$(GO) vet $(PKGS)
	$(GO) tool -modfile=tools/go.mod staticcheck $(PKGS)

FUZZTIME ?= 10s
fuzz:
	scripts/fuzz $(FUZZTIME)

# What the product links or the tests call: a C compiler for libzmq and the race detector, and xmllint for
# the XML Schema. The tests of bench link DuckDB, which needs a C++ compiler.
PACKAGES := gcc libc6-dev libzmq3-dev pkg-config libxml2-utils

# The tests start a ZooKeeper.
ZOOKEEPER := default-jre-headless libzookeeper-java

setup:
	@scripts/install-packages $(PACKAGES)

bench: build
	@scripts/install-packages miller mawk g++
	cd bench && $(GO) run . -n 2

clean:
	rm -rf bin
