# SPDX-License-Identifier: MIT
"""Pace of lines, and texts for people."""

import pytest

from xcl.report import Pace, Plain, Progress, duration


def lines_at(pace, seconds, step, due):
    """The times at which due says yes, asked every step seconds."""
    times = [pace.start + i * step for i in range(1, int(seconds / step) + 1)]
    return [round(t - pace.start, 3) for t in times if due(t)]


def test_step_lines_double_up_to_one_a_minute():
    pace = Pace()
    assert lines_at(pace, 300, 0.25, pace.due) == [1, 2, 4, 8, 16, 32, 64, 124, 184, 244]


@pytest.mark.parametrize(("seconds", "most"), [(10, 25), (3600, 130)])
def test_lines_of_many_epochs_grow_ever_rarer(seconds, most):
    pace = Pace()
    assert len(lines_at(pace, seconds, 0.1, lambda t: pace.epoch_due(t, 10**6))) <= most


def test_every_one_of_a_few_epochs_has_a_line():
    pace = Pace()
    assert len(lines_at(pace, 1, 0.02, lambda t: pace.epoch_due(t, 50))) == 50


def progress(**changes):
    values = {"epoch": 2, "epochs": 4, "rows": 50, "n_rows": 100, "step": 9, "loss": 0.5, "learning_rate": 0.1}
    return Progress(**{**values, "rows_per_second": 25.0, "active": 7.0, "seconds": 3.0, **changes})


def test_time_left_counts_the_rows_left():
    assert progress().seconds_left == 10.0
    assert progress(rows_per_second=0.0).seconds_left == 0.0


def test_a_line_names_epoch_share_loss_and_speed():
    line = progress().line()
    for text in ("epoch 2/4", "50 %", "loss 0.5", "25 rows/s", "left 0:10"):
        assert text in line


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (90, "1:30"), (4000, "1:06:40")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_a_stream_whose_reader_left_is_left_alone():
    class Gone:
        n = 0

        def write(self, text):
            self.n += 1
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

    stream = Gone()
    plain = Plain(stream)
    plain.notice("a")
    plain.notice("b")
    assert stream.n == 1
