package groups

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// An Admin may run on anybody's bun.DB, so it looks for itself, and sends no value where one could leave its quotes.
func TestAdminRefusesNonconformingStrings(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "a")
	cfg, err := pgx.ParseConfig(s.url)
	require.NoError(t, err)
	cfg.RuntimeParams["standard_conforming_strings"] = "off"
	db := bun.NewDB(stdlib.OpenDB(*cfg), pgdialect.New())
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	admin := Admin{DB: db}
	escaping := Key{queue, `\' OR true --`}
	for name, do := range map[string]func() error{
		"List":    func() error { _, err := admin.List(t.Context(), Filter{GroupID: escaping.GroupID}); return err },
		"Measure": func() error { _, err := admin.Measure(t.Context(), escaping.GroupID); return err },
		"Pauses":  func() error { _, err := admin.Pauses(t.Context()); return err },
		"Pause":   func() error { return admin.Pause(t.Context(), group("a"), escaping.GroupID) },
		"Resume":  func() error { return admin.Resume(t.Context(), escaping) },
		"Purge":   func() error { _, err := admin.Purge(t.Context(), escaping); return err },
	} {
		require.ErrorIs(t, do(), ErrNonconforming, name)
	}
	require.Equal(t, 1, one[int](s, "SELECT count(*) FROM pgfifo.jobs"))
}

// Handlers may use bun on a lane.
func TestLaneRefusesNonconformingStrings(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	d := s.dialer(Session{})
	d.Pool.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
	_, err := d.Dial(t.Context())
	require.ErrorIs(t, err, ErrNonconforming)
	_, err = d.Connect(t.Context())
	require.ErrorIs(t, err, ErrNonconforming)
}
