"""The system-specific names, from the module for this system."""
import os

if os.name == "nt":
    from turnstone_worker.windows import (
        FORKS,
        KEEPS_MARKERS,
        LATE_SIGNALS,
        O_QUIET,
        Gate,
        break_waits,
        crash_log,
        end_within,
        find_takes_keys,
        is_private,
        listen,
        open_channel,
        move_high,
        take_signals,
    )
else:
    from turnstone_worker.unix import (
        FORKS,
        KEEPS_MARKERS,
        LATE_SIGNALS,
        O_QUIET,
        Gate,
        break_waits,
        crash_log,
        end_within,
        find_takes_keys,
        is_private,
        listen,
        open_channel,
        move_high,
        take_signals,
    )
