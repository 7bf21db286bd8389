.PHONY: test race lint bench fuzz

test:
	go test ./...

race:
	go test -race ./...

lint:
	go vet ./...
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run

bench:
	cd bench && go run . drain

FUZZTIME ?= 30s
fuzz:
	for f in FuzzGroupID FuzzPayload FuzzErrorText; do \
		go test ./fifo -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) || exit 1; \
	done
