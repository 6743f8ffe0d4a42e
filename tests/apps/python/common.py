# SPDX-License-Identifier: MIT
"""What the programs of this folder share: a test prints "ok NAME" or "wrong NAME: REASON"."""
import sys
import traceback

TESTS = []


def test(function):
    """Decorator: a test returns nothing when its results are right, and raises otherwise."""
    TESTS.append(function)
    return function


def run():
    failed = 0
    for function in TESTS:
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {name}", flush=True)
        except Exception as error:  # pylint: disable=broad-exception-caught
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(str(error).split())[:300]
            print(f"wrong {name}: {type(error).__name__}: {text} ({where.name}, line {where.lineno})", flush=True)
    sys.exit(1 if failed else 0)


def near(got, wanted, tolerance=1e-5):
    """Raises unless the largest difference is small beside the largest value."""
    import numpy

    got, wanted = numpy.asarray(got), numpy.asarray(wanted)
    if got.shape != wanted.shape:
        raise ValueError(f"shape {got.shape} instead of {wanted.shape}")
    error = numpy.abs(got - wanted).max() if got.size else 0
    if not error <= tolerance * max(1, numpy.abs(wanted).max() if wanted.size else 0):
        raise ValueError(f"differs by {error}")


def equal(got, wanted):
    import numpy

    if not numpy.array_equal(numpy.asarray(got), numpy.asarray(wanted)):
        raise ValueError(f"{got!r} instead of {wanted!r}")
