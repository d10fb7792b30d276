"""Options of commands, made from the fields of their job models: name, type, default and help text."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

Job = Annotated[
    str | None, typer.Option(help="TOML file with any of these options; options on the command line take precedence.")
]
# Of commands that have no job model.
Model = Annotated[str, typer.Option(help="Model bundle.")]
Data = Annotated[str, typer.Option(help="Annotated data in any format of docs/reference/formats.md.")]
Scheme = Annotated[str | None, typer.Option(help="Label scheme of tagged data, such as IOB2.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
Flatten = Annotated[
    str, typer.Option(help="Overlapping entities, if the format is flat: refuse, or keep the longest or the first.")
]
_AFTER = "spanmarker.after"  # key of the words after --
Command = TypeVar("Command", bound=Callable[..., None])


#: Values of options that may be given without one.
BARE = {"--write-sentences": "offsets"}


def words_after(context: typer.Context) -> list[str]:
    """Return the words after --.

    Args:
        context: context of a `JobCommand` with extra words.
    """
    after: list[str] = context.meta[_AFTER]
    return after


def with_words(context: typer.Context, given: list[str] | None, option: str) -> list[str] | None:
    """Return the inputs of an option and those that follow its first one, as where a shell expands a pattern.

    Args:
        context: context of a `JobCommand` with extra words.
        given: inputs of the option.
        option: the option, for the error.

    Raises:
        PipelineError: `job.stray_words`.
    """
    from pipelines.errors import PipelineError
    from pipelines.planning.standard_input import STANDARD_INPUT
    from pipelines.storage.globs import patterns_of

    def is_input(word: str) -> bool:
        # URLs are looked up later, with the options of their stores.
        return word in STANDARD_INPUT or "://" in word or any(True for _ in patterns_of([word])[0].find())

    if stray := [word for word in context.args if not is_input(word)]:
        raise PipelineError("job.stray_words", words=" ".join(stray), option=option)
    return [*(given or []), *context.args] or None


class JobCommand(TyperCommand):
    """A command whose options from `with_options` are made when it is used, since job models take time to import."""

    def make_context(self, info_name: str | None, args: list[str], *arguments: Any, **extra: Any) -> Any:
        """Make the options, and the context from them. Its `meta` holds the words after --, and its `args` the others.

        Args:
            info_name: name of the command.
            args: words of the command line.
            arguments: passed on.
            extra: passed on.
        """
        assert self.callback
        command = inspect.unwrap(self.callback)
        if make := getattr(command, "make_options", None):
            own = inspect.signature(command).parameters.values()

            def complete(**values: Any) -> None:
                command(**values)

            complete.__signature__ = inspect.Signature([*own, *make()])  # type: ignore[attr-defined]
            app = typer.Typer(add_completion=False)
            app.command()(complete)
            made = typer.main.get_command(app)
            self.params, self.callback = made.params, made.callback
        if not self.context_settings.get("allow_extra_args"):
            return super().make_context(info_name, _with_bare_values(args), *arguments, **extra)
        cut = args.index("--") if "--" in args else len(args)
        context = super().make_context(info_name, _with_bare_values(args[:cut]), *arguments, **extra)
        context.meta[_AFTER] = args[cut + 1 :]
        return context


def _with_bare_values(words: list[str]) -> list[str]:
    """Return the words of a command line with the values of `BARE` where an option has none.

    >>> _with_bare_values(["--write-sentences", "--output", "out"])
    ['--write-sentences', 'offsets', '--output', 'out']
    """
    given: list[str] = []
    for word, following in zip(words, [*words[1:], "--"], strict=False):  # none, if there are no words
        given.append(word)
        if word in BARE and following.startswith("-"):
            given.append(BARE[word])
    return given


def with_options(make: Callable[[], list[inspect.Parameter]]) -> Callable[[Command], Command]:
    """Decorate a command that takes `**options`; the application must register it as a `JobCommand`.

    Args:
        make: returns the options, see `options_of`.
    """

    def decorate(command: Command) -> Command:
        own = list(inspect.signature(command).parameters.values())[:-1]
        command.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        command.make_options = make  # type: ignore[attr-defined]
        return command

    return decorate


def options_of(
    *jobs: "type[BaseModel]",
    first: Sequence[str] = (),
    without: Collection[str] = (),
    named: Mapping[str, str] | None = None,
    helps: Mapping[str, str] | None = None,
    prefix: str = "",
) -> list[inspect.Parameter]:
    """Return one option for each field of some job models.

    An option that is not given is None; the job model has the defaults.

    Args:
        jobs: the job models. The first model that has a field describes it.
        first: names of the fields to list first. The others follow in the order of the models, those that a model adds
            to its base before those of the base.
        without: names of fields that are not options.
        named: names of options that differ from their fields, such as "--gate/--no-gate".
        helps: help texts that replace the descriptions of fields.
        prefix: text before the descriptions of fields that the first model does not have.
    """
    fields: dict[str, FieldInfo] = {}
    for job in jobs:
        for name, field in _fields(job):
            fields.setdefault(name, field)
    named, helps = named or {}, helps or {}

    def option(name: str) -> inspect.Parameter:
        field = fields[name]
        text = helps.get(name) or field.description or ""
        if prefix and name not in jobs[0].model_fields:
            text = prefix + text[0].lower() + text[1:]
        kind = _kind(field)
        flag = (f"--{name.replace('_', '-')}",) if kind is bool else ()  # without its --no-
        info = typer.Option(*((named[name],) if name in named else flag), help=text + _default(field, text))
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
        )

    return [option(name) for name in dict.fromkeys([*first, *fields]) if name not in without]


def _fields(job: "type[BaseModel]") -> "Iterator[tuple[str, FieldInfo]]":
    """Yield the fields of a model, those that it adds to its bases first."""
    for kind in job.__mro__:
        for name in inspect.get_annotations(kind):
            if name in job.model_fields:
                yield name, job.model_fields[name]


def _kind(field: "FieldInfo") -> Any:
    """Return the type of an option. Values other than numbers and lists are text, which the job model parses."""
    kind = field.annotation
    if type(None) in get_args(kind):
        kind, *others = (each for each in get_args(kind) if each is not type(None))
        kind = str if others else kind
    if get_origin(kind) in (list, dict):
        return list[str]
    return kind if kind in (bool, int, float) else str


def _default(field: "FieldInfo", text: str) -> str:
    """Return the end of a help text that states the default, if there is one that the text does not state."""
    value = field.default
    if text.endswith("]") or field.is_required() or value in (None, [], {}, ""):
        return ""
    if isinstance(value, bool):
        shown = "yes" if value else "no"
    else:
        shown = f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)
    return f"  [default: {shown}]"
