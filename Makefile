# The Go module's own tools are pinned in tools/go.mod and tools/lint/go.mod, so that they never reach the binary.
TOOL := go tool -modfile=tools/go.mod
LINT := go tool -modfile=tools/lint/go.mod golangci-lint

# Go asks git what it builds, and fails where git refuses, as it does in a clone that belongs to somebody else.
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)

.DEFAULT_GOAL := help
.PHONY: help run build test trials bench bench-docs lint generate verify

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Run everything on this machine, with private servers; ARGS='--listen 127.0.0.1:9000'
	@exec bin/commma-api dev $(ARGS)

build: ## Build bin/commma-api
	@mkdir -p bin
	go build -buildvcs=$(BUILDVCS) -o bin/commma-api ./cmd/commma-api

test: ## Run all tests with the race detector, on private servers; ARGS='-run TestX'
	go test -race -timeout 15m $(ARGS) ./...

trials: ## Run the reliability suites at full size and print their table; SCALE=0.1 for a tenth; about 55 minutes
	cd tests && COMMMA_SCALE=$(or $(SCALE),1) GOGC=400 go test -timeout 3h -count=1 -parallel 5 -run TestTrials $(ARGS)

bench: ## Run the benchmarks at a hundredth of the documented size; ARGS='-benchtime 1x'
	go test -run '^$$' -bench . $(ARGS) ./...

bench-docs: ## Run what docs/benchmarks.md shows, at full size: 12 GB of disk; SCALE=0.1 for a tenth
	COMMMA_BENCH_SCALE=$(or $(SCALE),1) go test -timeout 1h -run '^$$' -bench . -benchtime 3x -v $(ARGS) ./tests/bench
	go test -run '^$$' -bench 'Store|Copy|Decode' -benchtime 2000x -count 3 ./internal/ingest
	go test -run '^$$' -bench 'Finalize|NothingDue' -benchtime 500x -count 3 ./internal/aggregate

lint: ## Check style and common mistakes
	$(LINT) run ./...

generate: ## Generate code from db/queries and api/openapi.yaml
	$(TOOL) sqlc generate
	$(TOOL) oapi-codegen -config api/oapi-codegen.yaml api/openapi.yaml

verify: ## Check that generated code, go.mod and migration numbers are in order; changes nothing
	.ci/verify
