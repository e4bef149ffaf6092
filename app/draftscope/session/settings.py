"""Settings as rows of data, over a file that Qt keeps for the user."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from PySide6.QtCore import QByteArray, QObject, QSettings, Signal

from draftscope.engine.probes import ProbeLevel
from draftscope.engine.protocol import CheckpointMode

Value = bool | int | float | str
"""What a setting can be; its row's default says which."""

MAX_RECENT = 10


@dataclass(frozen=True, slots=True)
class Setting:
    """A row. ``low``/``high`` bound a number, ``choices`` a text; ``unit`` is '' for counts and texts."""

    key: str
    default: Value
    unit: str
    description: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()

    def accept(self, value: Any) -> Value:
        """The value in the row's type and bounds; the default when it is none of that type.

        Files keep texts: 'true' and '3' are read back as what they were.
        """
        if isinstance(self.default, bool):
            return value if isinstance(value, bool) else str(value).lower() == "true"
        if isinstance(self.default, str):
            return str(value) if not self.choices or value in self.choices else self.default
        try:
            number = float(value)
        except (TypeError, ValueError):
            return self.default
        if not math.isfinite(number):
            return self.default
        bounded = min(max(number, self.low), self.high)
        return round(bounded) if isinstance(self.default, int) else bounded


ROWS = (
    Setting("context/n_slots", 4, "", "Slots: conversations that run at the same time", 1, 64),
    Setting("context/n_draft_max", 3, "tokens", "Draft length: most tokens drafted a round; 0 drafts nothing", 0, 16),
    Setting(
        "context/checkpoint",
        CheckpointMode.AUTO.value,
        "",
        "How the target goes back after a rejected draft",
        choices=tuple(CheckpointMode),
    ),
    Setting("context/n_ctx", 2048, "tokens", "Context length of each slot", 64, 1_048_576),
    Setting(
        "context/shift",
        False,
        "",
        "A full slot forgets its older half instead of ending its task; only models without recurrent layers can",
    ),
    Setting(
        "context/prompt_checkpoints_mib",
        512,
        "MiB",
        "Memory for earlier positions of the slots, from which an edited prompt goes on; 0 keeps none",
        0,
        1_048_576,
    ),
    Setting(
        "context/prompt_cache_mib",
        512,
        "MiB",
        "Memory for prompts that left their slots, for when they come again; 0 keeps none",
        0,
        1_048_576,
    ),
    Setting("context/n_threads", 0, "", "Threads of the engine; 0 lets it choose", 0, 512),
    Setting("model/n_gpu_layers", -1, "", "Layers on the GPU; -1 means all", -1, 10_000),
    Setting("model/use_mmap", True, "", "Map the file into memory instead of reading it"),
    Setting("model/devices", "", "", "Devices to use, separated by commas; empty means all"),
    Setting(
        "model/rpc_servers",
        "",
        "",
        "llama.cpp RPC servers to put models on: HOST:PORT, separated by commas; only in a network that you trust",
    ),
    Setting("sampling/temperature", 0.8, "", "Temperature; 0 takes the likeliest token", 0.0, 5.0),
    Setting("sampling/top_k", 40, "", "Top-k: sample from the k likeliest tokens; 0 is off", 0, 1_000_000),
    Setting("sampling/top_p", 0.95, "", "Top-p: sample from the likeliest tokens of this share; 1 is off", 0.0, 1.0),
    Setting("sampling/min_p", 0.05, "", "Min-p: least share of the likeliest token's probability; 0 is off", 0.0, 1.0),
    Setting("sampling/repeat_penalty", 1.0, "", "Repetition penalty; 1 is off", 0.1, 5.0),
    Setting("sampling/repeat_last_n", 64, "tokens", "How far back repetition counts; -1 is the context", -1, 65_536),
    Setting("sampling/presence_penalty", 0.0, "", "Presence penalty; 0 is off", -2.0, 2.0),
    Setting("sampling/seed", 0, "", "Seed of the sampler: the same seed gives the same text", 0, 2_147_483_647),
    Setting("run/max_tokens", 256, "tokens", "Most tokens that a slot generates", 1, 100_000),
    Setting("run/stop", "", "", "Stop strings, one a line"),
    Setting("run/ignore_eos", False, "", "Go on after an end-of-generation token"),
    Setting("run/prompts", "", "", "Prompts of the slots, as JSON"),
    Setting(
        "probe/level",
        ProbeLevel.OFF.value,
        "",
        "What is measured at every restore; each level includes those before it",
        choices=tuple(ProbeLevel),
    ),
    Setting("window/theme", "system", "", "Colours", choices=("system", "dark", "light")),
    Setting("window/show_rejected", True, "", "Show rejected draft tokens"),
    Setting("recording/is_on", True, "", "Record every run"),
    Setting(
        "recording/budget_mib",
        2048,
        "MiB",
        "Most disk space for recordings: the oldest go first, pinned ones stay",
        16,
        1_048_576,
    ),
    Setting("recording/with_text", True, "", "Record the text of prompts and outputs"),
    Setting(
        "export/format",
        "perfetto",
        "",
        "Format of exports",
        choices=("perfetto", "chrome", "csv", "parquet", "npz"),
    ),
    Setting("export/folder", "", "", "Folder of the last export; empty means the home folder"),
    Setting("export/with_text", True, "", "Write the text of prompts and outputs into exports"),
)
"""Every setting there is."""

BY_KEY: Mapping[str, Setting] = MappingProxyType({row.key: row for row in ROWS})


class Settings(QObject):
    """Values by key, kept in a file; what the file lacks or has wrong is the row's default."""

    changed = Signal(str)
    """Carries the key of a setting whose value changed."""

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = QSettings(str(path), QSettings.Format.IniFormat, self)
        self._values = {row.key: row.accept(self._store.value(row.key, row.default)) for row in ROWS}

    def get(self, key: str) -> Value:
        """The value of a setting.

        Raises:
            KeyError: no row has that key.
        """
        return self._values[key]

    def whole(self, key: str) -> int:
        """A setting that is a whole number."""
        return int(self._values[key])

    def number(self, key: str) -> float:
        """A setting that is a number."""
        return float(self._values[key])

    def text(self, key: str) -> str:
        """A setting that is a text."""
        return str(self._values[key])

    def flag(self, key: str) -> bool:
        """A setting that is a claim."""
        return bool(self._values[key])

    def set(self, key: str, value: Value) -> None:
        """Change a setting; brought into its bounds, or to its default when it is of another type."""
        accepted = BY_KEY[key].accept(value)
        if accepted != self._values[key]:
            self._values[key] = accepted
            self._store.setValue(key, accepted)
            self.changed.emit(key)

    # ---- what is kept but is no setting

    @property
    def recent_files(self) -> tuple[str, ...]:
        """Model files opened last, the newest first."""
        kept = self._store.value("recent/files", [])
        paths = [kept] if isinstance(kept, str) else kept if isinstance(kept, list) else []
        return tuple(str(path) for path in paths if path)[:MAX_RECENT]

    def add_recent(self, path: str | Path) -> None:
        """Put a file at the head of the recent ones."""
        others = [other for other in self.recent_files if other != str(path)]
        self._store.setValue("recent/files", [str(path), *others][:MAX_RECENT])
        self.changed.emit("recent/files")

    def remove_recent(self, path: str | Path) -> None:
        """Take a file out of the recent ones, because it is gone."""
        self._store.setValue("recent/files", [other for other in self.recent_files if other != str(path)])
        self.changed.emit("recent/files")

    def clear_recent(self) -> None:
        """Forget all recent files, and their draft models."""
        self._store.remove("recent/files")
        self._store.remove("recent/drafts")
        self.changed.emit("recent/files")

    def draft_of(self, path: str | Path) -> str:
        """The draft model (assistant) that was chosen for a model file; empty when none was."""
        return self._drafts().get(str(path), "")

    def set_draft(self, path: str | Path, draft_path: str) -> None:
        """Keep the draft model for a model file; an empty one forgets it. The last ``MAX_RECENT`` are kept."""
        others = {model: draft for model, draft in self._drafts().items() if model != str(path)}
        kept = ({str(path): draft_path} if draft_path else {}) | others
        self._store.setValue("recent/drafts", json.dumps(dict(list(kept.items())[:MAX_RECENT])))

    def _drafts(self) -> dict[str, str]:
        try:
            kept = json.loads(str(self._store.value("recent/drafts", "{}")))
        except ValueError:
            return {}
        return {str(model): str(draft) for model, draft in kept.items()} if isinstance(kept, dict) else {}

    def layout(self, name: str) -> QByteArray:
        """Bytes that a window kept under a name (``geometry``, ``docks``); empty when it has not."""
        kept = self._store.value(f"layout/{name}")
        return kept if isinstance(kept, QByteArray) else QByteArray()

    def set_layout(self, name: str, state: QByteArray) -> None:
        """Keep a window's bytes under a name."""
        self._store.setValue(f"layout/{name}", state)

    def save(self) -> None:
        """Write to the file now."""
        self._store.sync()
