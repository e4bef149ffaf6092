"""The reader of GGUF headers: right on files of another writer, and harmless on every other file."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.gguf import MAX_STRINGS, open_gguf
from draftscope.engine.gguf_values import TENSOR_TYPES, GgufArray

_LONGEST_S = 1.0


def _string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _header(n_tensors: int, n_keys: int, *rest: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys) + b"".join(rest)


def _u32(key: bytes, value: int) -> bytes:
    return _string(key) + struct.pack("<II", 4, value)


def _tensor(name: bytes, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def _refusal(path: Path) -> EngineError:
    started = time.monotonic()
    with pytest.raises(EngineError) as caught:
        open_gguf(path)
    assert time.monotonic() - started < _LONGEST_S
    assert caught.value.code is ErrorCode.BAD_FILE
    assert caught.value.message.startswith(str(path))
    return caught.value


def test_it_reads_what_another_writer_wrote(tmp_path: Path) -> None:
    path = tmp_path / "written.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_int8("a.i8", -5)
    writer.add_uint64("a.u64", 1 << 60)
    writer.add_float64("a.f64", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_string("a.text", "naïve café 你好")
    writer.add_array("a.numbers", [3, 1, 4])
    writer.add_array("a.texts", ["", "ä", "z"])
    writer.add_tensor("first", np.arange(96, dtype=np.float32).reshape(3, 32))
    packed = gguf.quants.quantize(np.ones((2, 64), dtype=np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("second.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_gguf(path) as file:
        values = {key: list(v) if isinstance(v, GgufArray) else v for key, v in file.metadata.items()}
        assert values == {
            "general.architecture": "llama",
            "a.i8": -5,
            "a.u64": 1 << 60,
            "a.f64": 0.1,
            "a.bool": True,
            "a.text": "naïve café 你好",
            "a.numbers": [3, 1, 4],
            "a.texts": ["", "ä", "z"],
        }
        assert file.types["a.i8"] == "i8"
        assert file.types["a.texts"] == "array"
        assert [(t.name, t.shape, t.type_name, t.n_bytes) for t in file.tensors] == [
            ("first", (32, 3), "F32", 384),
            ("second.weight", (64, 2), "Q8_0", 136),
        ]
        at = file.tensors[0].offset
    assert np.array_equal(np.frombuffer(path.read_bytes()[at : at + 384], dtype="<f4"), np.arange(96))


def test_it_agrees_with_the_gguf_package_on_the_demo_model(demo_model: Path) -> None:
    reference = gguf.GGUFReader(demo_model)
    with open_gguf(demo_model) as file:
        for mine, theirs in zip(file.tensors, reference.tensors, strict=True):
            expected = (theirs.name, tuple(theirs.shape), theirs.tensor_type.name, theirs.n_bytes, theirs.data_offset)
            assert (mine.name, mine.shape, mine.type_name, mine.n_bytes, mine.offset) == expected
        tokens = file.metadata["tokenizer.ggml.tokens"]
        assert isinstance(tokens, GgufArray)
        assert list(tokens) == reference.get_field("tokenizer.ggml.tokens").contents()  # type: ignore[union-attr]


def test_block_sizes_are_those_of_the_gguf_package() -> None:
    known = {kind.value: kind.name for kind in gguf.GGMLQuantizationType}
    for number, (name, block, n_bytes) in TENSOR_TYPES.items():
        if number in known and name != "Q8_1":  # the package counts 40 bytes; ggml's own block has 36
            kind = gguf.GGMLQuantizationType(number)
            assert (name, (block, n_bytes)) == (known[number], gguf.GGML_QUANT_SIZES[kind])


def test_a_vocabulary_of_152_thousand_tokens_opens_fast(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    words = [_string(b"token%d" % i) for i in range(152_000)]
    array = _string(b"tokens") + struct.pack("<IIQ", 9, 8, len(words)) + b"".join(words)
    path.write_bytes(_header(0, 1, array))
    started = time.monotonic()
    with open_gguf(path) as file:
        assert len(file.metadata["tokens"]) == 152_000  # type: ignore[arg-type]
        assert time.monotonic() - started < 0.5
        assert file.metadata["tokens"][151_999] == "token151999"  # type: ignore[index]


def test_text_that_is_not_utf8_is_replaced_not_fatal(tmp_path: Path) -> None:
    path = tmp_path / "latin1.gguf"
    path.write_bytes(_header(0, 1, _string(b"k\xe9y") + struct.pack("<I", 8) + _string(b"caf\xe9")))
    with open_gguf(path) as file:
        assert dict(file.metadata) == {"k\ufffdy": "caf\ufffd"}


_F32 = 0
_ONE = struct.pack("<I", 8) + _string(b"x")
BROKEN: dict[str, tuple[bytes, str]] = {
    "text instead": (b"Once upon a time there was a model", "not a GGUF file"),
    "shorter than a header": (b"GGUF\x03\x00\x00\x00", "cut short"),
    "version 0": (_header(0, 0, version=0), "big-endian"),
    "version 1": (_header(0, 0, version=1), "version 1"),
    "version 4": (_header(0, 0, version=4), "version 4"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "2^63 keys": (_header(0, 1 << 63), "claims"),
    "2^63 tensors": (_header(1 << 63, 0), "claims"),
    "more keys than bytes": (_header(0, 60_000), "cut short"),
    "a key longer than the file": (_header(0, 1, struct.pack("<Q", 1 << 62), b"x" * 20), "cut short"),
    "a key without a name": (_header(0, 1, _string(b"") + _ONE), "without a name"),
    "a key twice": (_header(0, 2, _string(b"k") + _ONE, _string(b"k") + _ONE), "twice"),
    "an unknown type": (_header(0, 1, _string(b"k") + struct.pack("<I", 13) + b"x" * 8), "unknown type 13"),
    "an array in an array": (_header(0, 1, _string(b"k") + struct.pack("<IIQ", 9, 9, 1) + b"x" * 8), "nests"),
    "an array of 2^61 numbers": (_header(0, 1, _string(b"k") + struct.pack("<IIQ", 9, 4, 1 << 61)), "cut short"),
    "an array of 2^61 texts": (_header(0, 1, _string(b"k") + struct.pack("<IIQ", 9, 8, 1 << 61)), "cut short"),
    "a text in an array past the end": (
        _header(0, 1, _string(b"k") + struct.pack("<IIQQ", 9, 8, 1, (1 << 64) - 1)),
        "cut short",
    ),
    "an alignment of 0": (_header(0, 1, _u32(b"general.alignment", 0)), "power of two"),
    "an alignment of 24": (_header(0, 1, _u32(b"general.alignment", 24)), "power of two"),
    "an alignment beyond the file": (
        _header(1, 1, _u32(b"general.alignment", 1 << 31), _tensor(b"t", (4,), _F32, 0), bytes(64)),
        "cut short",
    ),
    "an alignment in text": (_header(0, 1, _string(b"general.alignment") + _ONE), "power of two"),
    "9 dimensions": (_header(1, 0, _tensor(b"t", (1,) * 9, _F32, 0), bytes(64)), "9 dimensions"),
    "a negative dimension": (_header(1, 0, _tensor(b"t", ((1 << 64) - 1,), _F32, 0), bytes(64)), "impossible shape"),
    "2^80 elements": (_header(1, 0, _tensor(b"t", (1 << 40, 1 << 40), _F32, 0), bytes(64)), "impossible shape"),
    "an unknown tensor type": (_header(1, 0, _tensor(b"t", (4,), 4, 0), bytes(64)), "type 4"),
    "half a block": (_header(1, 0, _tensor(b"t", (31,), 8, 0), bytes(64)), "whole Q8_0 blocks"),
    "a gap between tensors": (_header(1, 0, _tensor(b"t", (4,), _F32, 32), bytes(96)), "where 0 is expected"),
    "a tensor twice": (
        _header(2, 0, _tensor(b"t", (8,), _F32, 0), _tensor(b"t", (8,), _F32, 32), bytes(200)),
        "twice",
    ),
    "a tensor past the end": (_header(1, 0, _tensor(b"t", (1 << 40,), _F32, 0), bytes(64)), "needs at least"),
    "a tensor name of 64 bytes": (_header(1, 0, _tensor(b"t" * 64, (4,), _F32, 0), bytes(64)), "name of 64 bytes"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_its_reason(case: str, tmp_path: Path) -> None:
    content, reason = BROKEN[case]
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    assert reason in _refusal(path).message


def test_millions_of_empty_strings_are_refused_in_time(tmp_path: Path) -> None:
    path = tmp_path / "strings.gguf"
    n = MAX_STRINGS + 1
    path.write_bytes(_header(0, 1, _string(b"k") + struct.pack("<IIQ", 9, 8, n), bytes(8 * n)))
    assert "more than" in _refusal(path).message


def test_control_characters_of_a_file_do_not_reach_the_message(tmp_path: Path) -> None:
    path = tmp_path / "escape.gguf"
    key = b"\x1b[31mred" * 40
    path.write_bytes(_header(0, 2, _string(key) + _ONE, _string(key) + _ONE))
    message = _refusal(path).message
    assert "\x1b" not in message
    assert len(message) < 400


def test_paths_that_are_no_files_are_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    empty = tmp_path / "empty.gguf"
    empty.touch()
    assert "does not exist" in _refusal(tmp_path / "nowhere.gguf").message
    assert "is a folder" in _refusal(tmp_path).message
    assert "not an ordinary file" in _refusal(pipe).message
    assert "is empty" in _refusal(empty).message


def test_a_path_with_a_null_character_is_refused() -> None:
    with pytest.raises(EngineError) as caught:
        open_gguf("model\0.gguf")
    assert caught.value.code is ErrorCode.BAD_FILE


def test_no_permission_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.gguf"
    path.write_bytes(b"GGUF")

    def refuse(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "may not be read" in _refusal(path).message


_MUTATION = st.lists(
    st.tuples(st.integers(0, 2**32), st.sampled_from([1, 2, 4, 8]), st.integers(0, 2**64 - 1)), min_size=1, max_size=4
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=_MUTATION, cut=st.one_of(st.none(), st.integers(0, 2**32)))
def test_changed_bytes_give_a_file_or_a_refusal(
    changes: list[tuple[int, int, int]], cut: int | None, made_model: Callable[[str], Path], tmp_path: Path
) -> None:
    content = bytearray(made_model("qwen35").read_bytes())
    header = 9000  # the metadata and the tensors' entries; beyond are weights
    for place, width, value in changes:
        at = place % header
        content[at : at + width] = (value % (1 << (8 * width))).to_bytes(width, "little")
    path = tmp_path / "changed.gguf"
    path.write_bytes(content if cut is None else content[: cut % len(content)])
    started = time.monotonic()
    code = ErrorCode.BAD_FILE
    try:
        with open_gguf(path) as file:
            for item in file.metadata.values():
                if isinstance(item, GgufArray):
                    assert len(list(item)) == len(item)
            assert all(t.offset + t.n_bytes <= file.size_bytes for t in file.tensors)
    except EngineError as error:
        code = error.code
    assert code is ErrorCode.BAD_FILE
    assert time.monotonic() - started < _LONGEST_S
