package host

// systemLimits are the limits that a job has.
var systemLimits = Limits{Memory: 1, Processes: 1}
