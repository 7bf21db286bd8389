package lease

import (
	"context"
	"fmt"

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
}

func (l *Lane) pipeline(ctx context.Context) *pipeline {
	return &pipeline{Pipeline: l.pg().StartPipeline(ctx), stmts: l.stmts, texts: l.pooled}
}

// send adds a statement.
func (p *pipeline) send(stmt string, args [][]byte, formats []int16) {
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

// exchange sends what is in a pipeline, has the answers read, and ends the pipeline. It returns the first error.
func exchange(p *pipeline, read func() error) error {
	err := p.Sync()
	if err == nil {
		err = read()
	}
	if closeErr := p.Close(); err == nil {
		err = closeErr
	}
	return err
}

// eachRow reads one statement's answer.
func eachRow(p *pipeline, row func(*rowReader)) error {
	result, err := readResult(p)
	if err != nil {
		return err
	}
	var r rowReader
	for result.NextRow() {
		r.values, r.next = result.Values(), 0
		row(&r)
		if err := r.end(); err != nil {
			return err
		}
	}
	_, err = result.Close()
	return err
}

// eachNth reads an answer whose rows begin with which one they are for, of so many that were sent.
func eachNth(p *pipeline, of int, row func(r *rowReader, n int)) error {
	return eachRow(p, func(r *rowReader) {
		n := int(r.uint32()) - 1
		if n < 0 || n >= of {
			r.fail("for number %d of %d", n+1, of)
			return
		}
		row(r, n)
	})
}

// readTags reads the answers to statements that return nothing of interest.
func readTags(p *pipeline, n int) error {
	for range n {
		if _, err := readTag(p); err != nil {
			return err
		}
	}
	return nil
}

func readTag(p *pipeline) (pgconn.CommandTag, error) {
	r, err := readResult(p)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return r.Close()
}

func readResult(p *pipeline) (*pgconn.ResultReader, error) {
	res, err := p.next()
	if err != nil {
		return nil, err
	}
	r, ok := res.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("lease: unexpected answer %T", res)
	}
	return r, nil
}

// readSync reads the answer to a Sync in the middle of a pipeline.
func readSync(p *pipeline) error {
	res, err := p.next()
	if err != nil {
		return err
	}
	if _, ok := res.(*pgconn.PipelineSync); !ok {
		return fmt.Errorf("lease: unexpected answer %T", res)
	}
	return nil
}
