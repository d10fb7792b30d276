"""Options of commands, made from the fields of their job models: name, type, default and help text."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from rich.markup import escape
from typer.core import TyperArgument, TyperCommand

from pipelines.commands.group import UsageError
from spanmarker_core.shown import Panel, Shown

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


def shown(panel: Panel, metavar: str | None, text: str, *flags: str, **more: Any) -> Any:
    """Return an option of a command that no job model has.

    Args:
        panel: its group in the help.
        metavar: placeholder of its value; None for a switch.
        text: its help text, in which brackets are plain text.
        flags: its names, if they differ from that of the parameter.
        more: further arguments of `typer.Option`.
    """
    return typer.Option(*flags, rich_help_panel=panel, metavar=metavar or "", help=_styled(text), **more)


def _styled(text: str, required: str | None = None) -> str:
    """Return a help text as markup: the default dim, and a mark if the option is required.

    Args:
        text: the text, with "  [default: ...]" at its end if it states one.
        required: what may be given instead of the option, or ""; None if it is not required.
    """
    text, bracket, default = text.partition("  [")
    styled = escape(text) + (f"  [dim]{escape('[' + default)}[/dim]" if bracket else "")
    return styled if required is None else f"{styled}  [red]{escape(f'[required{required}]')}[/red]"


def _print_epilog(markup: str) -> None:
    """Print the end of a help text; indented lines, which are commands, are not filled up with spaces.

    Args:
        markup: the text.
    """
    from rich.console import Console
    from rich.padding import Padding

    console = Console(highlight=False)
    for line in markup.split("\n"):
        if line.startswith(" "):
            console.print(f" {line}", soft_wrap=True)
        else:
            console.print(Padding(line, (0, 1)))


Job = Annotated[
    str | None,
    shown(Panel.FILES, "FILE", "TOML file with any of these options; options on the command line take precedence."),
]
# Of commands that have no job model.
Model = Annotated[
    str,
    shown(
        Panel.MODEL,
        "MODEL",
        "Folder of a model bundle, or a repository on the Hub, owner/name or owner/name@revision.",
    ),
]
Data = Annotated[str, shown(Panel.FILES, "DATA", "Annotated data in any format of docs/reference/formats.md.")]
Scheme = Annotated[str | None, shown(Panel.FILES, "SCHEME", "Label scheme of tagged data, such as IOB2.")]
DryRun = Annotated[
    bool,
    shown(Panel.FILES, None, "List the files, formats, sizes, shards and first ids that would be read.", "--dry-run"),
]
Quiet = Annotated[
    bool,
    shown(Panel.OBSERVABILITY, None, "Show neither progress nor messages, except errors.", "--quiet", "-q"),
]
Verbose = Annotated[
    bool,
    shown(Panel.OBSERVABILITY, None, "Also show the device and the settings of the workers.", "--verbose", "-v"),
]
Device = Annotated[str, shown(Panel.SPEED, "DEVICE", "cpu, cuda or auto.")]
Flatten = Annotated[
    str,
    shown(
        Panel.FILES,
        "refuse|longest|first",
        "Overlapping entities, if the format is flat: refuse, or keep the longest or the first.",
    ),
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
    from spanmarker_core.data.nearby import suggest_file

    def is_input(word: str) -> bool:
        # URLs are looked up later, with the options of their stores.
        return word in STANDARD_INPUT or "://" in word or any(True for _ in patterns_of([word])[0].find())

    if stray := [word for word in context.args if not is_input(word)]:
        suggestion = suggest_file(stray[0])
        raise PipelineError("job.stray_words", words=" ".join(stray), option=option, suggestion=suggestion)
    return [*(given or []), *context.args] or None


def _place(parameter: Any) -> int:
    """Return the place of a parameter in the help, by its panel; arguments, which have none, are first."""
    panel = getattr(parameter, "rich_help_panel", None)
    return list(Panel).index(panel) if panel in list(Panel) else -1


class JobCommand(TyperCommand):
    """A command whose options from `with_options` are made when it is used, since job models take time to import."""

    def __init__(self, *arguments: Any, **extra: Any) -> None:
        super().__init__(*arguments, **extra)
        if self.help:  # wrapped for the source, not for the screen
            self.help = "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(self.help).split("\n\n"))

    def format_help(self, context: Any, formatter: Any) -> None:
        """Print the help, whose last lines are examples to be copied: they have no margin at their ends.

        Args:
            context: context of the command.
            formatter: passed on.
        """
        epilog, self.epilog = self.epilog, None
        try:
            super().format_help(context, formatter)
        finally:
            self.epilog = epilog
        _print_epilog(epilog or "")

    def get_help_option(self, context: Any) -> Any:
        """Return the option --help, which has a panel of its own, after those of the command.

        Args:
            context: context of the command.
        """
        option = super().get_help_option(context)
        if option is not None:
            option.rich_help_panel, option.metavar = "Help", ""
        return option

    def collect_usage_pieces(self, context: Any) -> list[str]:
        """Return the words of the usage line, in which arguments are bare capitals.

        Args:
            context: context of the command.
        """
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(context)]

    def get_params(self, context: Any) -> list[Any]:
        """Return the parameters. The help shows the names of arguments without their types, which are text.

        Args:
            context: context of the command.
        """
        found = super().get_params(context)
        for parameter in found:
            if isinstance(parameter, TyperArgument):
                parameter.display_type_rich = lambda _=None, **__: ""  # type: ignore[method-assign]
        return found

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Make the options, and the context from them. Its `meta` holds the words after --, and its `args` the others.

        Args:
            info_name: name of the command.
            args: words of the command line.
            parent: context of the group.
            extra: passed on.
        """
        try:
            return self._context(info_name, args, parent=parent, **extra)
        except UsageError as error:
            error.path = f"{parent.command_path} {info_name}" if parent else info_name  # not all of them know it
            raise

    def _context(self, info_name: str | None, args: list[str], **extra: Any) -> Any:
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
        self.params = sorted(self.params, key=_place)
        if not self.context_settings.get("allow_extra_args"):
            return super().make_context(info_name, _with_bare_values(args), **extra)
        cut = args.index("--") if "--" in args else len(args)
        context = super().make_context(info_name, _with_bare_values(args[:cut]), **extra)
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
    required: Mapping[str, str] | None = None,
    prefix: str = "",
) -> list[inspect.Parameter]:
    """Return one option for each field of some job models, in the order of their panels.

    An option that is not given is None; the job model has the defaults. `Shown`, in the annotation of the field, states
    the panel and the placeholder of the value.

    Args:
        jobs: the job models. The first model that has a field describes it.
        first: names of the fields to list first. The others follow in the order of the models, those that a model adds
            to its base before those of the base.
        without: names of fields that are not options.
        named: names of options that differ from their fields, such as "--gate/--no-gate".
        helps: help texts that replace the descriptions of fields.
        required: options that may replace each required one, for fields that are required without saying so.
        prefix: text before the descriptions of fields that the first model does not have.
    """
    fields: dict[str, FieldInfo] = {}
    for job in jobs:
        for name, field in _fields(job):
            fields.setdefault(name, field)
    named, helps, required = named or {}, helps or {}, required or {}

    def option(name: str) -> inspect.Parameter:
        field = fields[name]
        text = helps.get(name) or field.description or ""
        mark = required.get(name, "" if field.is_required() else None)
        if prefix and name not in jobs[0].model_fields:
            text, mark = prefix + text[0].lower() + text[1:], None
        kind, how = _kind(field), shown_as(field)
        flag = named.get(name, how.option or f"--{name.replace('_', '-')}")  # of a switch, without its --no-
        info = typer.Option(
            flag,
            help=_styled(text + _default(field, text), mark),
            metavar="" if kind is bool else how.metavar or _metavar(field, kind),
            rich_help_panel=how.panel,
        )
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
        )

    chosen = [name for name in dict.fromkeys([*first, *fields]) if name not in without]
    panels = list(Panel)
    return [option(name) for name in sorted(chosen, key=lambda name: panels.index(shown_as(fields[name]).panel))]


def shown_as(field: "FieldInfo") -> Shown:
    """Return how a field is shown.

    Args:
        field: a field of a job model.
    """
    return next((each for each in field.metadata if isinstance(each, Shown)), Shown(Panel.FILES))


def _metavar(field: "FieldInfo", kind: Any) -> str:
    """Return the placeholder of a value: its choices, or one for its type."""
    kinds = [field.annotation, *get_args(field.annotation)]
    if choices := [choice for each in kinds if get_origin(each) is Literal for choice in get_args(each)]:
        return "|".join(map(str, choices))
    return {int: "N", float: "NUMBER"}.get(kind, "TEXT")


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
        kinds = [each for each in get_args(kind) if each is not type(None)]
        several = next((each for each in kinds if get_origin(each) is list), str)
        kind = kinds[0] if len(kinds) == 1 else several
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
