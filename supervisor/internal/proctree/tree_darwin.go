package proctree

// VisitMembers visits the members of the tree that the process table shows. That is best
// effort, since orphans go to launchd.
func (t ProcessTree) VisitMembers(visit func(pid, group int)) { t.VisitTable(visit) }

// ResidentMemory returns 0, which means unknown.
func (t ProcessTree) ResidentMemory() int64 { return 0 }
