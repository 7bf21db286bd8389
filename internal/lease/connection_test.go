package lease

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// What the Bounds promise is in force: on a lane and on the scout's connection, in a transaction and out of it.
func TestBoundsAreInForce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Enqueue(1, "a")
	d := s.dialer(Bounds{Heartbeat: time.Second, Silence: 2 * time.Second, ServerSilence: 12 * time.Second})
	var warned bytes.Buffer
	d.Logger = slog.New(slog.NewTextHandler(&warned, nil))
	l := s.dial(d)
	scout, err := d.Connect(t.Context())
	require.NoError(t, err)
	defer scout.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // the test is over
	want := map[string]string{
		"idle_in_transaction_session_timeout": "12s",
		"tcp_keepalives_idle":                 "4",
		"tcp_keepalives_interval":             "2",
		"tcp_keepalives_count":                "3",
		"tcp_user_timeout":                    "8000",
		"client_connection_check_interval":    "1s",
		"idle_session_timeout":                "0",
		"plan_cache_mode":                     "force_generic_plan",
		"application_name":                    d.Name[:min(len(d.Name), 63)],
	}
	version, err := strconv.Atoi(pgtest.One[string](s.DB, "SELECT current_setting('server_version_num')"))
	require.NoError(t, err)
	if version >= 170000 {
		want["transaction_timeout"] = "0"
	}
	h := s.claim(l, "a")
	tx := s.pgxTx(h)
	for setting, value := range want {
		var got, inTx string
		require.NoError(t, scout.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got))
		require.Equal(t, value, got, setting)
		if setting == "plan_cache_mode" {
			continue // the handler's own
		}
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&inTx))
		require.Equal(t, value, inTx, setting)
	}
	require.Empty(t, warned.String())
}

// The server takes the longest bound that Validate does.
func TestLongestBoundIsInForce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	d := s.dialer(Bounds{ServerSilence: math.MaxInt32 * time.Millisecond})
	var warned bytes.Buffer
	d.Logger = slog.New(slog.NewTextHandler(&warned, nil))
	conn, err := d.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // the test is over
	var got string
	require.NoError(t, conn.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&got))
	require.Equal(t, "2147483647ms", got)
	require.Empty(t, warned.String())
}

// A server that lacks a setting is used without it.
func TestSessionSettingThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	conn := s.Session()
	var warned bytes.Buffer
	// Larger than the server takes: it stands for a setting that is not there.
	bounds := Bounds{Silence: time.Second, ServerSilence: 10_000 * time.Hour}
	logger := slog.New(slog.NewTextHandler(&warned, nil))
	require.NoError(t, bounds.apply(t.Context(), conn.PgConn(), logger))
	require.Contains(t, warned.String(), "idle_in_transaction_session_timeout")
	var got string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting('enable_seqscan')").Scan(&got))
	require.Equal(t, "off", got, "the others are made")
}

func TestServerVersion(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	num, err := strconv.Atoi(pgtest.One[string](s.DB, "SELECT current_setting('server_version_num')"))
	require.NoError(t, err)
	require.Equal(t, num/10000, serverVersion(s.Session().PgConn()))
}
