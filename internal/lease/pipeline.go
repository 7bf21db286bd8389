package lease

import (
	"cmp"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A pipeline sends statements to a session, several in one round trip, and reads the answers. It prepares a statement
// where it is used first: to prepare all that a session might use takes the server 8 ms, a third of what the session
// costs. A pooler's session has nothing prepared: statements go as texts.
type pipeline struct {
	*pgconn.Pipeline
	stmts     statements
	texts     bool     // nothing is prepared
	preparing []string // whose descriptions are to come, in this order
	answers   []answer // to what was sent, in this order
	read      int      // how many of them were read, without an error
	noRow     error    // errNoRow if a call of step has found no row
	row       rowReader
}

// binaryRows are result formats: binary for what is not text anyway.
var binaryRows = []int16{pgx.BinaryFormatCode}

// An answer is what comes back for a statement.
type answer struct {
	row   func(*rowReader) // is told each row; nil: they are of no interest
	noRow *error           // is set to errNoRow unless exactly one row is changed; nil: there may be any number
}

// reuse begins a pipeline in the place of one that has ended.
func (p *pipeline) reuse(on *pgconn.Pipeline, stmts statements, texts bool) *pipeline {
	*p = pipeline{Pipeline: on, stmts: stmts, texts: texts, answers: p.answers[:0]}
	return p
}

// send adds a statement. sync tells row each row that comes back, in binary format.
func (p *pipeline) send(stmt string, args [][]byte, row func(*rowReader)) {
	p.add(stmt, args, answer{row: row})
}

// sendCall adds a statement that settles a job.
func (p *pipeline) sendCall(c Call, noRow *error) { p.add(c.Statement, c.Args, answer{noRow: noRow}) }

func (p *pipeline) add(stmt string, args [][]byte, a answer) {
	p.answers = append(p.answers, a)
	var formats []int16
	if a.row != nil {
		formats = binaryRows
	}
	s := p.stmts[stmt]
	if p.texts {
		p.SendQueryParams(s.SQL, args, nil, nil, formats)
		return
	}
	if !isPrepared(s) {
		p.prepare(stmt)
	}
	p.SendQueryStatement(s, args, nil, formats)
}

// sendText adds a statement that is nowhere prepared.
func (p *pipeline) sendText(sql string) {
	p.answers = append(p.answers, answer{})
	p.SendQueryParams(sql, nil, nil, nil, nil)
}

// prepare adds the preparing of a statement. It is deallocated first: an earlier pipeline may have prepared it, and
// have failed before that answer was read.
func (p *pipeline) prepare(stmt string) {
	p.SendDeallocate(stmt)
	p.SendPrepare(stmt, p.stmts[stmt].SQL, nil)
	p.preparing = append(p.preparing, stmt)
}

// next returns the next answer. It passes over the answers to prepare, and notes what they describe.
func (p *pipeline) next() (any, error) {
	for {
		res, err := p.GetResults()
		if err != nil {
			if sqlState(err) == notSupported {
				p.stmts.forget()
			}
			return nil, err
		}
		switch res := res.(type) {
		case *pgconn.CloseComplete:
		case *pgconn.StatementDescription:
			stmt := p.preparing[0]
			p.preparing = p.preparing[1:]
			res.Name, res.SQL = stmt, p.stmts[stmt].SQL // not in the answer
			p.stmts[stmt] = res
		default:
			return res, nil
		}
	}
}

// sync sends what was added, and reads the answers. After an error it reads no more.
func (p *pipeline) sync() error {
	if err := p.Sync(); err != nil {
		return err
	}
	for ; p.read < len(p.answers); p.read++ {
		if err := p.readAnswer(p.answers[p.read]); err != nil {
			return err
		}
	}
	_, err := nextAs[*pgconn.PipelineSync](p)
	return err
}

// exchange is the last sync of a pipeline. It returns the first error.
func (p *pipeline) exchange() error { return p.end(p.sync()) }

// end ends the pipeline. It returns the error before that, if there was one.
func (p *pipeline) end(err error) error {
	clear(p.answers) // and with them what was read, which would stay in memory until the next one
	p.row = rowReader{}
	return cmp.Or(err, p.Close())
}

func (p *pipeline) readAnswer(a answer) error {
	result, err := nextAs[*pgconn.ResultReader](p)
	if err != nil {
		return err
	}
	p.row.kept = nil
	for a.row != nil && result.NextRow() {
		p.row.values, p.row.next = result.Values(), 0
		a.row(&p.row)
		if err := p.row.end(); err != nil {
			return err
		}
	}
	tag, err := result.Close()
	if err == nil && a.noRow != nil && tag.RowsAffected() != 1 {
		*a.noRow = errNoRow
	}
	return err
}

// nth reads rows that begin with the number, from 1, of what they are for; of is how many were sent.
func nth(of int, row func(r *rowReader, n int)) func(*rowReader) {
	return func(r *rowReader) {
		n := int(r.uint32()) - 1
		if n < 0 || n >= of {
			r.fail("for number %d of %d", n+1, of)
			return
		}
		row(r, n)
	}
}

// nextAs returns the next answer, which must be of that type.
func nextAs[T any](p *pipeline) (as T, err error) {
	res, err := p.next()
	if err != nil {
		return as, err
	}
	as, ok := res.(T)
	if !ok {
		err = fmt.Errorf("lease: unexpected answer %T", res)
	}
	return as, err
}
