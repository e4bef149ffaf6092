"""Messages between a client and an engine: typed commands and answers; ``engine/codec.py`` has their JSON form.

A command carries an id and is answered by exactly one *closing* message with that id (``Closing``); before it any
number of ``LoadProgress`` may come. ``LogLine``, ``Pieces`` and ``EngineDied`` come unasked. Trace records do not pass
here: they go through shared memory (``engine/ring.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from draftscope.engine.errors import ErrorReport
from draftscope.engine.probes import Fault, ProbeLevel

CommandId = NewType("CommandId", int)

ANY_SLOT = -1
"""As the slot of a task: whichever is free first."""


class CheckpointMode(StrEnum):
    """The way back that the user asks for; ``auto`` lets the engine choose."""

    AUTO = "auto"
    ROLLBACK = "rollback"
    COW = "cow"
    DEVICE = "device"
    HOST = "host"


class CatchUp(StrEnum):
    """Where the companion's catch-up rows are decoded: with the first draft step, or in a decode of their own."""

    RIDE = "ride"
    ALONE = "alone"


class Replay(StrEnum):
    """Where tokens are decoded again after a restore: with the next verification, alone, or as measured costs say."""

    MEASURED = "measured"
    RIDE = "ride"
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What to load and where. ``n_gpu_layers`` -1 means all; ``devices`` empty means all (names as in ``doctor``).

    ``rpc_servers``: ``HOST:PORT`` of llama.cpp's RPC servers, whose devices come before the local ones. ``draft_path``:
    the assistant, where the model drafts with one; it is put where the model is.
    """

    path: str
    n_gpu_layers: int = -1
    devices: tuple[str, ...] = ()
    use_mmap: bool = True
    rpc_servers: tuple[str, ...] = ()
    draft_path: str = ""


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How the contexts are made. ``n_ctx`` is per slot, in tokens; ``n_threads`` 0 means the engine's choice.

    ``prompt_checkpoints_mib``, ``prompt_cache_mib``: host memory, for all slots together, that earlier positions of
    the slots and prompts that left them may take, in MiB; 0 turns them off. ``prompt_checkpoint_spacing``: tokens
    between two checkpoints of a slot, at most. ``use_hooks``: hidden rows are saved and restored with a state; without,
    they are zero after it. ``shift``: a full slot forgets the older half of its tokens instead of ending its task.
    """

    n_slots: int = 4
    n_ctx: int = 2048
    n_draft_max: int = 3
    use_mtp: bool = True
    checkpoint: CheckpointMode = CheckpointMode.AUTO
    n_threads: int = 0
    n_batch: int = 512
    catch_up: CatchUp = CatchUp.RIDE
    replay: Replay = Replay.MEASURED
    prompt_checkpoints_mib: int = 512
    prompt_checkpoint_spacing: int = 256
    prompt_cache_mib: int = 512
    use_hooks: bool = True
    shift: bool = False


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """libllama's sampler chain. ``temperature`` 0 is greedy; neutral values switch a sampler off."""

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation, as chat templates know it."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a slot starts from: plain text, or messages for the model's chat template, or token ids; exactly one.

    ``is_continuation``: it follows what the slot holds already; it may be empty then.
    """

    text: str = ""
    messages: tuple[ChatMessage, ...] = ()
    tokens: tuple[int, ...] = ()
    is_continuation: bool = False


@dataclass(frozen=True, slots=True)
class SlotTask:
    """One generation in one slot, or in ``ANY_SLOT``.

    ``reuse``: what the slot holds already of the prompt is not decoded again.

    ``grammar`` (GBNF, from its rule ``root`` on) or ``json_schema`` (JSON text): what the output must be; at most one.
    Where that leaves nothing but the end, the task ends, whatever ``ignore_eos`` says.
    """

    slot: int
    prompt: Prompt
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    reuse: bool = True
    grammar: str = ""
    json_schema: str = ""


# ---- commands


@dataclass(frozen=True, slots=True)
class Load:
    """Load a model and make its contexts, replacing what was loaded. Closed by Loaded, Failed or Cancelled."""

    id: CommandId
    model: ModelSettings
    context: ContextSettings


@dataclass(frozen=True, slots=True)
class Configure:
    """Make new contexts for the loaded model; ends all tasks. Closed by Loaded or Failed."""

    id: CommandId
    context: ContextSettings


@dataclass(frozen=True, slots=True)
class Submit:
    """Give tasks to slots, those whose slots are free together; the others wait, in order of arrival for each slot.

    Closed by Finished when all have ended (also cancelled ones), or Failed.
    """

    id: CommandId
    tasks: tuple[SlotTask, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop at once: a load in progress, and tasks at work in the named slots or waiting for them (empty: all tasks).

    With ``commands`` only tasks of these Submits (with ``slots``: of them those in these slots). Closed by Done.
    """

    id: CommandId
    slots: tuple[int, ...] = ()
    commands: tuple[CommandId, ...] = ()


@dataclass(frozen=True, slots=True)
class ClearSlot:
    """Empty a slot.

    This and the other commands on a slot are closed by SlotChanged, or by Failed: BUSY while it is at work, UNSUPPORTED
    where the model's memory cannot do it.
    """

    id: CommandId
    slot: int


@dataclass(frozen=True, slots=True)
class RewindSlot:
    """Go back to the first ``n_tokens`` tokens of a slot."""

    id: CommandId
    slot: int
    n_tokens: int


@dataclass(frozen=True, slots=True)
class ForkSlot:
    """Let the slot ``to`` hold what ``slot`` holds; what it held is gone. The answer is about ``to``."""

    id: CommandId
    slot: int
    to: int


@dataclass(frozen=True, slots=True)
class ShiftSlot:
    """Drop ``n_discard`` tokens behind the first ``n_keep`` and move the rest up to them."""

    id: CommandId
    slot: int
    n_keep: int
    n_discard: int


@dataclass(frozen=True, slots=True)
class SaveSlot:
    """Write what a slot holds into a file (``engine/slot_file.py``); an older slot file of that name is replaced."""

    id: CommandId
    slot: int
    path: str


@dataclass(frozen=True, slots=True)
class RestoreSlot:
    """Let a slot hold what a file holds. Refused (BAD_FILE, BAD_STATE), nothing has changed."""

    id: CommandId
    slot: int
    path: str


@dataclass(frozen=True, slots=True)
class SetProbe:
    """Measure restores in these slots (empty: in all) from now on; what is loaded later, too. Closed by Done.

    Takes effect between two steps of the engine, also while tasks go on.
    """

    id: CommandId
    level: ProbeLevel
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class InjectFault:
    """Let every restore in these slots (empty: in all) do something wrong, to see it caught. Closed by Done.

    ``layer``: of SKIP_LAYER, which recurrent layer; -1: the last. Until it is set to NONE or contexts are made anew.
    """

    id: CommandId
    fault: Fault
    slots: tuple[int, ...] = ()
    layer: int = -1


@dataclass(frozen=True, slots=True)
class Unload:
    """Free contexts and model. Closed by Done."""

    id: CommandId


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the engine. Closed by Done, after which nothing comes any more."""

    id: CommandId


# ---- reports inside answers


@dataclass(frozen=True, slots=True)
class Speculation:
    """Whether drafts are made, and why not, or why shorter ones than asked, in words.

    ``n_layer_nextn``: MTP layers, those of the assistant where there is one. ``family``: how they make a draft of
    several tokens: none, single_head, chained_heads, assistant.
    """

    is_active: bool
    n_layer_nextn: int
    n_draft_max: int
    reason: str = ""
    family: str = "none"


@dataclass(frozen=True, slots=True)
class TimedWay:
    """One row of the calibration: a way back, timed on the loaded model with all slots at once, before the first run.

    Times are in microseconds, 0 where ``n_timed`` is 0. ``save_us``/``restore_us``: one slot, median. ``verify_us``: a
    decode of the sampled token and a whole draft in every slot, the best of ``n_timed``, as the rest, since other
    programs disturb a decode far more than the ways differ. ``after_us``: what that decode takes longer right after
    restores of all slots (below 0: noise). ``replay_us``: what decoding half a draft again adds, the cheaper of alone
    and in front of the next verification. ``round_us``: all of it for a round in which every draft is half rejected;
    the way with the least is taken. ``bytes_per_slot``: beside the live state.
    """

    mechanism: str
    is_available: bool
    is_chosen: bool
    n_timed: int
    save_us: float
    restore_us: float
    verify_us: float
    after_us: float
    replay_us: float
    round_us: float
    bytes_per_slot: int
    why: str


@dataclass(frozen=True, slots=True)
class WayBack:
    """How the target goes back: mode asked for, ``Mechanism`` granted (lower case), steps asked and granted, why.

    ``bytes_per_slot``: of a saved state, 0 where none is saved. ``calibration``: what ``auto`` timed, in
    ``calibration_ms`` milliseconds; empty where there was nothing to choose.
    """

    asked: CheckpointMode
    granted: str
    n_rs_seq_asked: int
    n_rs_seq_granted: int
    why: str
    bytes_per_slot: int = 0
    calibration: tuple[TimedWay, ...] = ()
    calibration_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of one kind, all slots together, as libllama and the engine hold them; those on devices apart.

    ``kind``: weights, kv (keys and values of the target), recurrent (live states and their steps back), checkpoints
    (saved states), draft (the MTP context's keys and values), compute (scratch of both contexts), prompt_checkpoints
    and prompt_cache (states of prompts, in host memory). ``predicted_bytes``: what ``info`` says of it for these
    settings, -1 where it says nothing.
    """

    kind: str
    host_bytes: int
    device_bytes: int
    predicted_bytes: int = -1


@dataclass(frozen=True, slots=True)
class DecodeCost:
    """What a target decode costs by measurement: ``graph_us`` a graph run and ``token_us`` a token; 0 of 0 decodes."""

    n_measured: int = 0
    graph_us: float = 0.0
    token_us: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What was loaded and granted; sizes in bytes, ``n_ctx`` per slot in tokens, times in milliseconds.

    ``shifts``: a full slot forgets the older half of its tokens; ``why_not_shift``: why this model's contexts cannot.
    ``library``: the libllama that is loaded, ``patches``: those of ours that it says it carries.
    """

    path: str
    description: str
    architecture: str
    size_bytes: int
    n_params: int
    n_layer: int
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    has_tokenizer: bool
    has_chat_template: bool
    is_recurrent: bool
    n_slots_asked: int
    n_slots: int
    n_ctx: int
    n_threads: int
    devices: tuple[str, ...]
    speculation: Speculation
    way_back: WayBack
    engine: str
    is_patched: bool
    load_ms: float
    memory: tuple[MemoryUse, ...] = ()
    shifts: bool = False
    why_not_shift: str = ""
    library: str = ""
    patches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlotResult:
    """What a task produced, and the slot that served it (``ANY_SLOT``: it never got one).

    Rates and lengths are derived in ``trace.acceptance`` from these counts. ``n_reused`` of the ``n_prompt`` tokens
    that the task began with were there already; ``reuse`` is the ``Reuse`` in lower case, '' if it never began.
    ``accepted_at``/``drafted_at``: element i counts the rounds that accepted/drafted a token at draft position i + 1.
    """

    slot: int
    text: str
    tokens: tuple[int, ...]
    n_prompt: int
    n_rounds: int
    draft_n: int
    draft_n_accepted: int
    accepted_at: tuple[int, ...]
    drafted_at: tuple[int, ...]
    ttft_ms: float
    prompt_ms: float
    generate_ms: float
    stop: str
    error: str = ""
    n_reused: int = 0
    reuse: str = ""


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """What a slot holds, and the text of it without the begin token; '' where the model has no tokenizer.

    ``n_decoded`` of its ``n_tokens`` are in the target's memory and ``n_draft`` in the draft context's; ``n_waiting``
    rows are still to be taken in by that. Prompt checkpoints are in host memory.
    """

    slot: int
    n_tokens: int = 0
    n_decoded: int = 0
    n_draft: int = 0
    n_waiting: int = 0
    n_prompt_checkpoints: int = 0
    prompt_checkpoint_bytes: int = 0
    tokens: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class DecodeCounts:
    """Decode calls and graph runs since the contexts were made, prompt and generation apart.

    ``rounds``: rounds run. ``target``/``draft``: decode calls in rounds (``replay`` of the target's were replays alone,
    ``catch_up`` of the draft's carried catch-up rows alone). ``rides``: verifications that carried replayed tokens.
    ``*_graph_runs``: graphs computed for them.
    """

    rounds: int = 0
    target: int = 0
    draft: int = 0
    replay: int = 0
    rides: int = 0
    catch_up: int = 0
    target_graph_runs: int = 0
    draft_graph_runs: int = 0
    prompt: int = 0
    prompt_graph_runs: int = 0


@dataclass(frozen=True, slots=True)
class RunReport:
    """Totals of one Submit: counts are those of this run only; wall time in milliseconds.

    ``memory`` and ``decode_cost`` are as they stand at the run's end.
    """

    decodes: DecodeCounts
    n_saves: int
    n_restores: int
    n_fallbacks: int
    wall_ms: float
    memory: tuple[MemoryUse, ...] = ()
    decode_cost: DecodeCost = field(default_factory=DecodeCost)


# ---- answers


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is: fraction in [0, 1] and a word for the stage (``servers``, ``weights``, ``contexts``...).

    The ``draft weights`` are those of an assistant.
    """

    command: CommandId
    fraction: float
    stage: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is there."""

    command: CommandId
    report: ModelReport


@dataclass(frozen=True, slots=True)
class Finished:
    """All tasks of a Submit have ended; results in the order of its tasks."""

    command: CommandId
    results: tuple[SlotResult, ...]
    report: RunReport


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The load was cancelled; nothing is loaded."""

    command: CommandId


@dataclass(frozen=True, slots=True)
class Done:
    """The command is done and has nothing to say."""

    command: CommandId


@dataclass(frozen=True, slots=True)
class SlotChanged:
    """A command on a slot is done: what the slot holds now. ``size_bytes``: of the file written or read, else 0."""

    command: CommandId
    slot: SlotFacts
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The command failed; what was loaded before it and still works stays loaded."""

    command: CommandId
    error: ErrorReport


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that libllama or the engine logged; ``level`` is one of debug, info, warning, error."""

    level: str
    text: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class Pieces:
    """Bytes of tokens that occur in the records for the first time; a piece may be a part of a UTF-8 character."""

    pieces: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class EngineDied:
    """The engine process ended unasked; made by the client. ``signal`` 0 and ``exit_code`` tell how.

    ``lost_servers``: the RPC servers of which one went away, where that was the reason.
    """

    signal: int
    exit_code: int
    last_operation: str
    log_tail: tuple[str, ...]
    lost_servers: tuple[str, ...] = ()


SlotCommand = ClearSlot | RewindSlot | ForkSlot | ShiftSlot | SaveSlot | RestoreSlot
ProbeCommand = SetProbe | InjectFault
Command = Load | Configure | Submit | SlotCommand | ProbeCommand | Cancel | Unload | Shutdown
Closing = Loaded | Finished | SlotChanged | Cancelled | Done | Failed
Answer = Closing | LoadProgress | LogLine | Pieces | EngineDied
Message = Command | Answer
