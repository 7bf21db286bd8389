// Package drivers has drivers of database/sql that others make run what the library sends in a caller's transaction. It
// is a module of its own, so that nobody who imports the library has them among its modules.
package drivers
