package proctree

// ProcessLimits bound what a worker and everything it starts may use; zero fields set no bound.
type ProcessLimits struct {
	Memory    int64 `json:",omitempty"` // bytes
	Processes int   `json:",omitempty"`
	CPUs      int   `json:",omitempty"`
	Files     int   `json:",omitempty"` // open in each process
	Disk      int64 `json:",omitempty"` // bytes of one file; the sandbox enforces the rest
}

// An RlimitScope says what the kernel counts for a worker other than its own processes.
type RlimitScope struct {
	HasCgroup    bool // a control group counts the memory
	Sandboxed    bool // the processes of a sandbox are counted apart
	MaxUserTasks int  // RLIMIT_NPROC where the kernel counts all of the user's tasks; 0: unlimited
}

// HardMemoryLimit returns the bytes of memory that a tree with a memory limit may not exceed even
// briefly. Beyond them, the limit enforcer or the kernel kills a program at once.
func HardMemoryLimit(limit int64) int64 { return limit + max(limit/4, 128<<20) }
