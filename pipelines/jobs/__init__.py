"""Job models: what a job file or a command line may say, one model per file. What a job does is in `runs`."""
