"""Machine code that families ask for: an object each, for who asks and for who writes it.

What it does is in `compiled/eager/formulas.py`. It is text, by which it is kept on disk and shown;
whoever names one that there is not fails when imported.
"""

from __future__ import annotations

__all__ = ["Program"]  # and those below, as names of this module


class Program(str):
    """One of them, by its name."""

    __slots__ = ()


ADAM = Program("adam")
ATTENTION_WEIGHTS = Program("_attention_weights")
AVERAGE_POOL = Program("average_pool")
CHANNEL_STATISTICS = Program("channel_statistics")
CLASS_LOSSES = Program("class_losses")
CLASS_SLOPES = Program("class_slopes")
COMBINED_RUNS = Program("combined_runs")
CONVOLUTION = Program("convolution")
CONVOLUTION_INPUT = Program("convolution_input")
CONVOLUTION_WEIGHT = Program("convolution_weight")
DOT = Program("dot")
ERF = Program("erf")
GRADIENTS_OF_CHANNELS = Program("gradients_of_channels")
GRADIENTS_OF_ROWS = Program("gradients_of_rows")
LINEAR = Program("linear")
LOG_SOFTMAX = Program("log_softmax")
LOG_SOFTMAX_ADJOINT = Program("_log_softmax_adjoint")
LSTM_STEP = Program("lstm_step")
LSTM_STEP_BACK = Program("lstm_step_back")
MAX_POOL = Program("max_pool")
MIXED_HEADS = Program("mixed_heads")
PUT_PLACES = Program("put_places")
RECURRENT_WEIGHTS = Program("recurrent_weights")
SCALED_RUNS = Program("scaled_runs")
SOFTMAX = Program("softmax")
SOFTMAX_ADJOINT = Program("_softmax_adjoint")
SPREAD_AVERAGE = Program("spread_average")
STANDARDISED_CHANNELS = Program("standardised_channels")
STANDARDISED_ROWS = Program("standardised_rows")
SUMS_OF_RUNS = Program("sums_of_runs")
