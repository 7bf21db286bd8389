.PHONY: test race lint bench fuzz soak torture mutants

test:
	go test ./...

race:
	go test -race ./...

lint:
	go vet ./...
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run

bench:
	cd bench && go run . all

FUZZTIME ?= 30s
fuzz:
	for f in FuzzGroupID FuzzPayload FuzzErrorText; do \
		go test ./fifo -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) || exit 1; \
	done

# 100,000 jobs and 1,000 faults, and what they leave; then a quarter of an hour, and whether memory grows.
soak:
	go run ./internal/torture/cmd/torture -profile soak
	go run ./internal/torture/cmd/torture -profile soak -jobs 1000000 -for 15m

# A million jobs, and thousands of faults; every go test runs a short one, and -profile ci is between them.
torture:
	go run ./internal/torture/cmd/torture -profile long

# Bugs planted on purpose, one build each: the harness, or a test, must catch every one.
mutants:
	go run ./internal/torture/cmd/mutants
