package main

import "math/rand/v2"

// zipfS is the exponent: the group of rank k gets a share of the messages in proportion to k to the power of -zipfS.
const zipfS = 1.1

// A shape says how messages are spread over groups.
type shape struct {
	name string
	hot  func(groups int) int // how many groups count as hot: those of the first ranks
	draw func(groups int) func() int
}

// skews are the uneven ones.
var skews = []shape{
	{name: "zipf 1.1", draw: zipfian, hot: func(groups int) int { return max(groups/100, 1) }},
	{name: "half in one", draw: halfInOne, hot: func(int) int { return 1 }},
}

// even is every group's turn, by chance; none is hot.
var even = shape{
	name: "even", hot: func(int) int { return 0 },
	draw: func(groups int) func() int { return func() int { return rand.IntN(groups) } },
}

// zipfian draws the rank of a group, from 0.
func zipfian(groups int) func() int {
	z := rand.NewZipf(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), zipfS, 1, uint64(groups-1))
	return func() int { return int(z.Uint64()) }
}

// halfInOne gives half of all messages to one group, and spreads the rest evenly.
func halfInOne(groups int) func() int {
	return func() int {
		if groups == 1 || rand.IntN(2) == 0 {
			return 0
		}
		return 1 + rand.IntN(groups-1)
	}
}
