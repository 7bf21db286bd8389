package lease

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// What the Bounds promise is in force: on a lane and on the scout's connection, in a transaction and out of it.
func TestBoundsAreInForce(t *testing.T) {
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

// A server that lacks a setting is used without it.
func TestSessionSettingThatIsNotThere(t *testing.T) {
	s := newStage(t)
	conn := s.Session()
	var warned bytes.Buffer
	// Larger than the server takes.
	bounds := Bounds{Silence: time.Second, ServerSilence: 10_000 * time.Hour}
	require.NoError(t, bounds.Validate())
	logger := slog.New(slog.NewTextHandler(&warned, nil))
	require.NoError(t, bounds.apply(t.Context(), conn.PgConn(), logger))
	require.Contains(t, warned.String(), "idle_in_transaction_session_timeout")
	var got string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting('enable_seqscan')").Scan(&got))
	require.Equal(t, "off", got, "the others are made")
}

func TestServerVersion(t *testing.T) {
	s := newStage(t)
	num, err := strconv.Atoi(pgtest.One[string](s.DB, "SELECT current_setting('server_version_num')"))
	require.NoError(t, err)
	require.Equal(t, num/10000, serverVersion(s.Session().PgConn()))
}

// Handlers may use bun on a lane.
func TestLaneRefusesNonconformingStrings(t *testing.T) {
	s := newStage(t)
	d := s.dialer(Bounds{})
	d.Pool.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
	_, err := d.Dial(t.Context())
	require.ErrorIs(t, err, ErrNonconforming)
	_, err = d.Connect(t.Context())
	require.ErrorIs(t, err, ErrNonconforming)
}

func TestSessionValidate(t *testing.T) {
	t.Parallel()
	for _, s := range []Bounds{
		{},
		{Heartbeat: time.Second, Silence: 2 * time.Second, ServerSilence: 4500*time.Millisecond + 2},
		{Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3400 * time.Millisecond},
		{ServerSilence: 17 * time.Second},
		{ServerSilence: time.Hour},
		{Heartbeat: time.Millisecond},
	} {
		require.NoError(t, s.Validate(), s)
	}
	for _, s := range []Bounds{
		{Heartbeat: -1},
		{Heartbeat: 1},
		{Heartbeat: time.Millisecond - 1},
		{Silence: -1},
		{ServerSilence: -1},
		{ServerSilence: 16 * time.Second},
		{Heartbeat: time.Second, Silence: 2 * time.Second, ServerSilence: 4500 * time.Millisecond},
		// What the server may give away after 2 s, with its reply on its way, TCP does not notice before.
		{Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3 * time.Second},
		{Silence: 25 * time.Second},
		{Silence: time.Hour},
	} {
		require.Error(t, s.Validate(), s)
	}
	require.Equal(t, Bounds{time.Second, 10 * time.Second, 30 * time.Second}, Bounds{}.WithDefaults())
	own := Bounds{time.Minute, time.Hour, 2 * time.Hour}
	require.Equal(t, own, own.WithDefaults())
}
