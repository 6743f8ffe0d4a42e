# SPDX-License-Identifier: MIT
"""cuDF: a sum, a group-by, a join, against pandas."""
import cudf
import numpy
import pandas
from common import equal, near, run, test

RANDOM = numpy.random.default_rng(0)
LEFT = pandas.DataFrame({"key": RANDOM.integers(0, 20, 1000), "value": RANDOM.standard_normal(1000)})
RIGHT = pandas.DataFrame({"key": numpy.arange(20), "name": RANDOM.integers(0, 5, 20)})


@test
def columns():
    there = cudf.from_pandas(LEFT)
    near(there.value.sum(), LEFT.value.sum())
    equal(there.key.to_pandas(), LEFT.key)


@test
def group_by():
    got = cudf.from_pandas(LEFT).groupby("key").value.mean().sort_index().to_pandas()
    wanted = LEFT.groupby("key").value.mean().sort_index()
    equal(got.index, wanted.index)
    near(got, wanted)


@test
def join():
    got = cudf.from_pandas(LEFT).merge(cudf.from_pandas(RIGHT), on="key").groupby("name").value.sum().sort_index()
    near(got.to_pandas(), LEFT.merge(RIGHT, on="key").groupby("name").value.sum().sort_index())


run()
