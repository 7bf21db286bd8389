package lease

// Abandon cuts the connection for good while a handler still uses it: the handler's transaction cannot commit any more,
// and the lane's own goroutine leaves the connection alone. Any goroutine may call it.
func (l *Lane) Abandon() {
	l.lost.Store(true)
	l.Kill()
}
