//go:build !linux && !darwin && !windows

package this_system_has_no_worker_host_yet
