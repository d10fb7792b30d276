"""Experiments: several trainings on the same files, with several seeds, and tests of their differences.

data       the subsets of the data, the same for all configurations
runs       a run: its identity and its files
own        a run of this library in its own process: training, then tagging of dev and test
processes  execution of runs in processes, several at once, and their resource usage
scores     the scores of a run's predictions
results    results.json and results.md over all runs
run        the driver
"""
