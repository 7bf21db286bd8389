package torture

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a process logs is what the checkers read.
func TestEventLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "w1.log")
	book, err := openJournal(path)
	require.NoError(t, err)
	began := now()
	book.write(evStart, 7, 70, 2, 700, "-")
	book.write(evEnd, 7, 70, 2, 0, "error of two\nlines")
	book.write(evTrouble, 0, 0, 0, 0, "")
	events, err := readEvents(path, 3)
	require.NoError(t, err)
	require.Len(t, events, 3)
	at := began
	for _, e := range events {
		require.GreaterOrEqual(t, e.at, at)
		at = e.at
	}
	require.Equal(t, event{
		at: events[0].at, kind: evStart, proc: 3, group: 7, job: 70, attempt: 2, arg: 700,
		word: "-",
	}, events[0])
	require.Equal(t, "error of two lines", events[1].word)
	require.Equal(t, evTrouble, events[2].kind)

	require.NoError(t, os.WriteFile(path, []byte("1 start 1 1 1 1 -\n2 start 1 1"), 0o600))
	events, err = readEvents(path, 3)
	require.NoError(t, err, "its process was killed as it wrote the second")
	require.Len(t, events, 1)

	for _, bad := range []string{"1 start 2", "1 begin 1 1 1 1 -", "x start 1 1 1 1 -"} {
		require.NoError(t, os.WriteFile(path, []byte(bad+"\n"), 0o600))
		_, err := readEvents(path, 0)
		require.ErrorContains(t, err, path+":1")
	}
}

func TestProducerLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p1.log")
	text := `100 log 0 - something
110 invoke 1 pgx 11:1:0:0,12:2:0:0
115 invoke 2 plain 13:3:0:0
120 ok 1 pgx 501,502
130 fail 2 plain ERROR: no
140 invoke 3 bun 14:4:2000:0
150 unknown 3 bun EOF
160 invoke 4 plain 15:5:0:0
170 invoke 5 plain 16:6:0:16
180 ok 5 plain =501
190 invoke 6 plain 17:6:0:16
200 ok 6 plain *501
`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	h := &history{}
	require.NoError(t, h.readEnqueues(path))
	require.Equal(t, []enqueue{
		{n: 11, id: 501, invoke: 110, back: 120, group: 1, result: resOK, how: "pgx"},
		{n: 12, id: 502, invoke: 110, back: 120, group: 2, result: resOK, how: "pgx"},
		{n: 13, invoke: 115, back: 130, group: 3, result: resFailed, how: "plain", why: "ERROR: no"},
		{n: 14, invoke: 140, back: 150, group: 4, delay: 2000, result: resUnknown, how: "bun", why: "EOF"},
		{n: 15, invoke: 160, group: 5, result: resUnknown, how: "plain"},
		{
			n: 16, id: 501, invoke: 170, back: 180, group: 6, twins: 16, result: resFailed, how: "plain",
			why: aDuplicate,
		},
		{n: 17, id: 501, invoke: 190, back: 200, group: 6, twins: 16, result: resOK, how: "plain", replaced: true},
	}, h.enqueues)
}

func TestServerLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := `2026-01-02 03:04:05.678 UTC [12] run w3 40P01 ERROR:  deadlock detected
2026-01-02 03:04:05.678 UTC [12] run w3 40P01 DETAIL:  Process 1 waits for ShareLock; blocked by process 2.
	Process 2 waits for ShareLock; blocked by process 1.
	Process 1: SELECT
	 1
2026-01-02 03:04:05.678 UTC [12] run w3 40P01 STATEMENT:  SELECT
	 1
2026-01-02 03:04:05.678 UTC [12] other w3 40P01 ERROR:  of another database
2026-01-02 03:04:05.678 UTC [12]   00000 LOG:  nothing
2026-01-02 03:04:05.678 UTC [12] run [unknown] 57P03 FATAL:  the database system is starting up
`
	path := filepath.Join(dir, "log")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	h := &history{}
	require.NoError(t, h.readServerLog(path, "run", filepath.Join(dir, "copy")))
	require.Equal(t, []serverError{
		{
			"w3", "40P01", "ERROR: deadlock detected in: SELECT",
			"Process 1 waits for ShareLock; blocked by process 2.; " +
				"Process 2 waits for ShareLock; blocked by process 1.; Process 1: SELECT; ",
		},
		{"[unknown]", "57P03", "FATAL: the database system is starting up", ""},
	}, h.serverErrors)
	require.FileExists(t, filepath.Join(dir, "copy"))
}
