"""Numbers that the graph and the checks on the host share."""

#: Greatest number that formulas see; it and its reciprocal are normal in float32.
LARGEST = 1e30

#: How far the sum of a row of label weights may be from 1, by rounding.
SIMPLEX_SUM_ERROR = 1e-3

#: How far below 0 a label weight may be, by rounding.
SIMPLEX_NEGATIVE = 1e-6
