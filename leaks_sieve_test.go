package pgfifo_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Canaries are in every payload and password of these tests, and nowhere else. Digits, so that a payload can be a
// number.
const (
	canary         = "5105105105105100314159265358979"
	passwordCanary = "hunter2canary"
)

// A sieve keeps what the library logs and what it returns as errors.
type sieve struct {
	*testing.T
	logs logbook
	mu   sync.Mutex
	errs []string
}

func newSieve(t *testing.T) *sieve {
	v := &sieve{T: t}
	t.Cleanup(v.audit)
	return v
}

func (v *sieve) logger() *slog.Logger {
	json := slog.NewJSONHandler(&v.logs, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(tee{v.logs.handler(slog.LevelDebug), json})
}

// failed keeps an error, which there must be.
func (v *sieve) failed(what string, err error) {
	v.Helper()
	require.Error(v, err, what)
	v.keep(what, err)
}

func (v *sieve) keep(what string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.errs = append(v.errs, fmt.Sprintf("%s: %v | %+v | %q", what, err, err, err))
}

// audit looks for canaries, as they are and as PostgreSQL and Go write bytes.
func (v *sieve) audit() {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := append(strings.Split(v.logs.String(), "\n"), v.errs...)
	for _, line := range lines {
		if form := found(line); form != "" {
			v.Errorf("%q is in: %.300s", form, line)
		}
	}
}

// found returns the first form of a canary that a line has.
func found(line string) string {
	for _, c := range []string{canary, passwordCanary} {
		for _, form := range []string{
			c[:10], hex.EncodeToString([]byte(c[:10])), base64.StdEncoding.EncodeToString([]byte(c[:9])),
			strings.Trim(fmt.Sprintf("%d", []byte(c[:10])), "[]"),
			strings.Trim(fmt.Sprintf("%#v", []byte(c[:5])), "[]byte{}"),
		} {
			if strings.Contains(line, form) {
				return form
			}
		}
	}
	return ""
}

// A tee hands everything to two handlers.
type tee struct{ a, b slog.Handler }

func (h tee) Enabled(context.Context, slog.Level) bool { return true }

func (h tee) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(h.a.Handle(ctx, r), h.b.Handle(ctx, r))
}

func (h tee) WithAttrs(a []slog.Attr) slog.Handler { return tee{h.a.WithAttrs(a), h.b.WithAttrs(a)} }

func (h tee) WithGroup(g string) slog.Handler { return tee{h.a.WithGroup(g), h.b.WithGroup(g)} }
