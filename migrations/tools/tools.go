// Package tools has others' migration tools run the files of package migrations. It is a module of its own, so that
// nobody who imports the library has these tools among its modules.
package tools
