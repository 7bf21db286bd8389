// Package schedule decides which group is next: it finds groups with jobs, keeps them in line, and hands them to the
// lanes of a process in turn. All that it keeps in memory about groups is a hint: the claim decides (package lease). It
// opens no connection: the worker gives it one for the scout, and the sweep its transactions (Collect, Firsts). It
// knows no job's payload.
//
//	notices, redrives ---------> Turns.Announce --+
//	                                              +--> line, due, watched ---> Turns.Next ---> a seat of package fifo
//	the Scout's walks, looks --> Turns.Offer -----+               ^                              |
//	                                                              |              Turn.Request -> the claim (lease)
//	                                                              |                              the handlers
//	                                                              |                              |
//	                                                              +--- Turns.Done, Again <--- Outcome, Seen
//
// # What stands where
//
//   - Turns: what lanes and notices call stands in turns.go, what the scout calls in view.go. Behind their lock is the
//     book, which moves groups from one place to another: book.go, and team.go for those of which several jobs may run.
//     The scout also uses parts of it directly (Turns.with).
//   - The places: line.go, with ranks.go and shares.go; due.go; watched.go. For how many more groups: room.go.
//   - Which lane may work what: lanes.go, slots.go, probe.go, suspects.go.
//   - What is known of a group: turn.go, trouble.go, floor.go.
//   - The scout, and what it does again and again: scout.go; watch.go, walk.go and look.go, refill.go, urgent.go. What
//     these read: reader.go, rows.go. What the worker's sweep asks for: sweep.go.
//
// # Whose turn it is
//
// The queues have their turns by the time of lanes that they have used, the groups of a queue in the order in which
// they came (line.go). So no queue waits for another one's backlog or long jobs, and no group for another one's jobs. A
// queue may have lanes kept, and may not exceed its most (lanes.go). A queue may be divided among shares, which have
// its turns in the same way, by time (shares.go): tenants, whoever has how many groups. In either, groups whose heads
// have a priority go before the others, except for every tenth turn (ranks.go). A queue that is at its limit over all
// processes waits until one of its own jobs ends here, or the scout has looked at one of its groups, which it does
// every 25 to 50 ms (slots.go). A group of which several jobs may run at once has as many lanes, which join one after
// the other (team.go). A group that is not due waits in memory (due.go); one that another process holds is watched
// (watch.go); one about which the server refuses something is left alone for a while (trouble.go). Groups whose heads
// may be what has killed their workers are tried one at a time (suspects.go). A queue whose jobs cannot be done,
// because what they need is down, is probed: it has one lane now and then (probe.go).
//
// # How groups are found
//
// A walk reads the head of every group of a queue, and costs as much as there are groups: some seconds for a million.
// It is made when a worker starts, while more groups of the queue are ready than the worker keeps in line (16,384 of
// each queue), and once every PollInterval as long as all walks take a hundredth of that or less. Where they take more,
// the worker looks instead (look.go), and spends a two-hundredth of its time on walks, for the sake of rows that were
// changed by hand:
//
//   - What is new has an id above those that were drawn at the last look, or is written by a transaction that was
//     seen writing then. An index of ids finds it.
//   - What will be due within twice PollInterval and two seconds, or was put back by a redrive, has its time in an
//     index of delayed and failed jobs. Its group waits in memory until then.
//   - Whoever makes something ready without a trace in either requests a walk for it (look.go). The next walk begins at
//     once then, and so it does when more than 131,072 ids are new or their sequence was set back.
//
// Groups whose heads have a priority are looked for as long as any group is in line, in an index of such jobs, four
// times a second or, while there are any, more often (urgent.go). So they are found whatever the backlog of others.
//
// So groups that are delayed or back off cost next to nothing, however many they are, and others start in time beside
// them. At most 65,536 of them are kept in memory, half of that room for those that are due soon. While more than that
// become due within these seconds, they are found as room becomes free.
//
// When a queue's part of the line is full, its walk stops, and goes on there when that is half empty. The others go on
// meanwhile: no queue waits for another one's backlog. A queue with shares is walked to the end nevertheless, and what
// its full shares have no room for is found as each of them runs low (refill.go).
package schedule
