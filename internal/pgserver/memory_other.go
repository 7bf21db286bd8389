//go:build !linux

package pgserver

// memoryDir returns a folder in memory; there is none.
func memoryDir() string { return "" }
