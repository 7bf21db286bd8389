package main

import (
	"fmt"

	"github.com/shirou/gopsutil/v4/cpu"
)

// A usage is what part of the machine's processor time was used, by whomever, from begin to end, over several runs.
type usage struct {
	from       cpu.TimesStat
	err        error
	used, time float64
}

func (u *usage) begin() { u.from, u.err = machine() }

func (u *usage) end() error {
	to, err := machine()
	if u.err != nil {
		err = u.err
	}
	if err != nil {
		return fmt.Errorf("processor time: %w", err)
	}
	idle := to.Idle + to.Iowait - u.from.Idle - u.from.Iowait
	// Guests are in User and Nice already.
	used := to.User + to.Nice + to.System + to.Irq + to.Softirq + to.Steal -
		(u.from.User + u.from.Nice + u.from.System + u.from.Irq + u.from.Softirq + u.from.Steal)
	u.used += used
	u.time += used + idle
	return nil
}

// busy is from 0 to 1.
func (u *usage) busy() float64 {
	if u.time <= 0 {
		return 0
	}
	return min(max(u.used/u.time, 0), 1)
}

func machine() (cpu.TimesStat, error) {
	all, err := cpu.Times(false)
	if err != nil {
		return cpu.TimesStat{}, err
	}
	return all[0], nil
}
