package launch

// PagerEnv removes a pager: Windows has no cat, and programs show text whole if TERM is dumb.
const PagerEnv = "PAGER"

// MaxOpenFiles returns 0: Windows does not limit the open files of a process.
func MaxOpenFiles() int { return 0 }
