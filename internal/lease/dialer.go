package lease

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/conforming"
	"github.com/pgfifo/pgfifo/internal/schema"
)

// dials counts the lanes of this process.
var dials atomic.Int64

// A Dialer opens lanes.
type Dialer struct {
	// Pool says how to connect: its ConnConfig, BeforeConnect and AfterConnect are used, its connections are not.
	Pool *pgxpool.Config
	// Direct says how to reach the server itself, where Pool goes through a pooler that shares sessions. Then only the
	// lanes that a Borrower borrows go through that. Nil: all go as Pool says.
	Direct *pgxpool.Config
	// Control is for what must commit by itself while a lane's transaction is open (marks, what became of a lost
	// claim, fencing tokens), and for what one session is asked about another. Without one, there is none of that.
	// Whoever made it closes it.
	Control *pgxpool.Pool
	// Schema is where the tables live.
	Schema schema.Name
	// Name is the lanes' application_name, unless Pool says one.
	Name string
	// Bounds are those of silence. The zero value means the defaults.
	Bounds Bounds
	// Statements are what settles a held job, by name. Calls name them.
	Statements map[string]string
	// Logger is told of session settings that are not available. Required.
	Logger *slog.Logger
	// DB is what handlers' transactions are begun on, with its models and query hooks. It is on a Lending Connector.
	// Without a DB there are no transactions for bun. Whoever made it closes it.
	DB *bun.DB

	probing sync.Mutex  // for a pooler: lanes that are dialed at once would take each other's sessions
	parsed  atomic.Bool // a server has parsed ownTexts and Statements
	wary    atomic.Bool // a handler has taken a lane's statements away, unseen
}

// Connect opens one plain connection with the session bounds of a lane, for listening and discovery.
func (d *Dialer) Connect(ctx context.Context) (*pgx.Conn, error) { return d.plain(ctx, d.direct()) }

// ConnectPooled is Connect by way of the Pool, whatever Direct says.
func (d *Dialer) ConnectPooled(ctx context.Context) (*pgx.Conn, error) { return d.plain(ctx, d.Pool) }

func (d *Dialer) plain(ctx context.Context, to *pgxpool.Config) (*pgx.Conn, error) {
	l, err := d.connect(ctx, to, false)
	if err != nil {
		return nil, err
	}
	return l.Conn(), nil
}

func (d *Dialer) direct() *pgxpool.Config { return cmp.Or(d.Direct, d.Pool) }

// connect opens a connection: a lane's, or a plain one.
func (d *Dialer) connect(ctx context.Context, to *pgxpool.Config, lane bool) (*link, error) {
	bounds := d.Bounds.WithDefaults()
	cfg, err := bounds.connConfig(ctx, to, d.Name, lane)
	if err != nil {
		return nil, err
	}
	l := &link{wire: new(wire), control: d.Control, bounds: bounds, pooled: to != d.direct()}
	cfg.Tracer = l.wire.chain(cfg.Tracer)
	conn, err := stdlib.GetConnector(*cfg).Connect(ctx)
	if err != nil {
		return nil, err
	}
	l.conn = conn.(*stdlib.Conn)
	var ok bool
	if l.stream, ok = l.pg().Conn().(*stream); !ok {
		err = errNotWatched
	} else if !l.pooled {
		var pid uint32
		pid, err = d.ownSession(ctx, l)
		l.stream.pid = int32(pid) //nolint:gosec // as PostgreSQL has it
	}
	if err == nil && l.pg().ParameterStatus("in_hot_standby") == "on" {
		err = ErrStandby
	}
	if err == nil && to.AfterConnect != nil {
		err = to.AfterConnect(ctx, l.Conn())
	}
	if err == nil && !l.pooled { // whatever that has set
		var more [][2]string
		if !lane { // a lane keeps the user's DateStyle; the others may read times as text
			more = [][2]string{{"DateStyle", "ISO"}}
		}
		err = bounds.apply(ctx, l.pg(), d.Logger, more...)
	}
	if err == nil { // for handlers that use bun, and for texts
		err = conforming.Check(l.pg())
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return l, nil
}

// CutStranded is Lane.CutStranded for a connection that Connect has opened.
func (d *Dialer) CutStranded(ctx context.Context, conn *pgx.Conn) error {
	s, ok := conn.PgConn().Conn().(*stream)
	if !ok || d.Control == nil || !s.stranded(ctx, d.Control, d.Bounds.WithDefaults().Silence) {
		return nil
	}
	_ = s.Close()
	return errStranded
}

// HungUp is Lane.HungUp for a connection that Connect has opened.
func (d *Dialer) HungUp(conn *pgx.Conn) bool {
	s, ok := conn.PgConn().Conn().(*stream)
	return ok && s.ended()
}

// ErrStandby is returned by Dial and Connect when the server is a hot standby: nobody can lock a row there.
var ErrStandby = errors.New("lease: the server is a hot standby: connect to the primary, " +
	"with target_session_attrs=read-write and the addresses of both, say")

// Dial opens a lane.
func (d *Dialer) Dial(ctx context.Context) (*Lane, error) { return d.dial(ctx, d.direct()) }

func (d *Dialer) dial(ctx context.Context, to *pgxpool.Config) (*Lane, error) {
	on, err := d.connect(ctx, to, true)
	if err != nil {
		return nil, err
	}
	l := &Lane{
		recorder: recorder{link: on, schema: d.Schema, stmts: unprepared(d.Schema, ownTexts, d.Statements)},
		db:       d.DB, wary: &d.wary,
	}
	if err := d.equip(ctx, l); err != nil {
		_ = l.conn.Close()
		return nil, err
	}
	return l, nil
}

func (d *Dialer) equip(ctx context.Context, l *Lane) error {
	var each [][2]string // what each transaction sets
	if l.pooled {
		each = local(l.bounds.settings(serverVersion(l.pg())))
	}
	restore, err := restoreSQL(ctx, l.pg(), each)
	if Refused(err) { // not on every server platform
		each = slices.DeleteFunc(each, func(kv [2]string) bool { return kv[0] == connectionCheck })
		restore, err = restoreSQL(ctx, l.pg(), each)
	}
	if err != nil {
		return err
	}
	l.claims.dialed = dials.Add(1)
	if d.parsed.CompareAndSwap(false, true) {
		if err := l.stmts.parse(ctx, l.pg()); err != nil {
			d.parsed.Store(false)
			return err
		}
	}
	l.stmts.add(stmtRestore, restore) // in which a name may be the session's
	if l.pooled {
		l.stmts.add(stmtLocal, setLocal(each))
	} else if err := l.prepareRestore(ctx); err != nil {
		return err
	}
	l.stream.spoiled.Store(false) // so far, only what has set the session up
	l.stream.deallocated.Store(false)
	return nil
}
