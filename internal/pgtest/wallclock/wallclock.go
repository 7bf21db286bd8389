// Package wallclock moves the wall clock of a test's process, and leaves the monotonic one alone. No system has a wall
// clock per process. But Go reads both by a function that the kernel maps into the process (vdso(7)), and has its
// address in a variable that packages may link to. A function in its place adds an offset. That is written for Linux on
// amd64.
package wallclock
