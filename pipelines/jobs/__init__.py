"""Job models: the settings of a job file or command line, one model per file. Running a job is the task of `runs`."""
