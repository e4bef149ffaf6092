"""The writer of protocol buffers, read back by the published implementation."""

import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.internal import decoder
from hypothesis import given
from hypothesis import strategies as st

from draftscope.trace.export.protobuf import Messages, field, varint, varint_block

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(INT64)
def test_a_single_varint_is_read_back(value):
    read, end = decoder._DecodeSignedVarint(varint(value), 0)
    assert (read, end) == (value, len(varint(value)))


@given(st.lists(INT64 | st.integers(0, 200), min_size=1, max_size=8))
def test_a_block_of_varints_is_read_back_whatever_their_sizes(values):
    block = varint_block(np.array(values, np.int64))
    assert [decoder._DecodeSignedVarint(row.tobytes(), 0) for row in block] == [(v, block.shape[1]) for v in values]


def test_the_numbers_of_a_block_are_no_longer_than_the_largest_needs():
    assert varint_block(np.array([0, 127])).shape == (2, 1)
    assert varint_block(np.array([0, 128])).shape == (2, 2)
    assert varint_block(np.array([-1, 0])).shape == (2, 10)
    assert varint_block(np.zeros(0, np.int64)).shape == (0, 1)


def parsed(message_type, encoded):
    message = message_type()
    message.ParseFromString(encoded)
    return message


def test_messages_with_absent_nested_and_repeated_fields_are_read_back():
    names = Messages(3)  # UninterpretedOption.NamePart is (string name_part = 1, bool is_extension = 2)
    names.constant(field(1, "x"))
    names.varints(2, np.array([1, 0, 1]))
    option = Messages(3)  # UninterpretedOption: name = 2, positive_int_value = 4, double_value = 6
    option.varints(4, np.array([5, 0, 2**40]), np.array([True, False, True]))
    option.repeated(2, names, np.array([2, 0, 1]))
    option.doubles(6, np.array([0.5, -1.0, 2.0]), np.array([False, True, True]))
    outer = Messages(3)  # MessageOptions: uninterpreted_option = 999
    outer.submessages(999, option)
    whole = outer.joined()
    lengths = outer.lengths.tolist()
    ends = np.cumsum(lengths).tolist()
    found = [
        parsed(descriptor_pb2.MessageOptions, whole[end - length : end]).uninterpreted_option[0]
        for end, length in zip(ends, lengths, strict=True)
    ]
    assert [one.positive_int_value if one.HasField("positive_int_value") else None for one in found] == [5, None, 2**40]
    assert [[part.is_extension for part in one.name] for one in found] == [[True, False], [], [True]]
    assert [one.double_value if one.HasField("double_value") else None for one in found] == [None, -1.0, 2.0]


def test_repeated_messages_cannot_be_left_out():
    inner = Messages(1)
    inner.varints(1, np.array([1]))
    outer = Messages(1)
    outer.repeated(2, inner, np.array([1]))
    with pytest.raises(ValueError, match="count of 0"):
        Messages(1).submessages(3, outer, np.array([False]))
