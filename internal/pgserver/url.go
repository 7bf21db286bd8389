package pgserver

import (
	"context"
	"errors"
	"fmt"
)

// startURL takes the server that DATABASE_URL names. It starts nothing and
// Close stops nothing.
func (s *starter) startURL(ctx context.Context) (*Server, error) {
	url := s.getenv(EnvURL)
	if url == "" {
		return nil, errors.New(EnvURL + " is not set")
	}
	if _, err := show(ctx, url, "server_version"); err != nil {
		return nil, fmt.Errorf("%s is set, but its server can't be used: %w", EnvURL, err)
	}
	if s.opts.Durable || len(s.opts.Settings) > 0 {
		s.opts.Logf("pgserver: the server of %s keeps its own settings", EnvURL)
	}
	return &Server{URL: url}, nil
}
