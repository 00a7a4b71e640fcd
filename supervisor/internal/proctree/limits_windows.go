package proctree

// SupportedLimits are the limits that a job supports; 1 stands for any value.
var SupportedLimits = ProcessLimits{Memory: 1, Processes: 1}
