"""Several trainings as one experiment: the same files for every configuration, every seed kept, differences tested.

data       the subsets that all configurations are given
runs       what a run is, and what is there of it
own        a run of this library: trains, then tags dev and test (a process of its own)
processes  runs the runs, some at once, and learns what each took
scores     predictions of a run -> its scores
results    all runs -> results.json and results.md
run        the whole
"""
