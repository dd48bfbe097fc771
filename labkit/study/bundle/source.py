"""The source of a function and of everything of its notebook that it uses, as one module that stands alone.

A notebook's function lives on what other cells defined: imports, constants, helpers. They are collected
from what the function's code names, and written down in the order in which they need each other.
"""

from __future__ import annotations
import __future__ as future

import ast
import bisect
import dis
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

__all__ = ["SourceText", "difference", "executed", "home_of", "same_code", "source_of"]

#: a longer constant is written next to the module, not into it
_LONGEST_LITERAL = 2000
_ANNOTATIONS = future.annotations.compiler_flag
_OWN = ("__name__", "__builtins__", "__doc__")


@dataclass
class SourceText:
    """A module made of a function and what it needs.

    `text`: The module.
    `name`: What the function is called in it.
    `values`: What is put into the module before it runs: values that are no literals.
    `modules`: The modules that it imports.
    `originals`: The functions and classes that it defines again, by their names in it.
    `missing`: What could not be written down, each with the reason; empty when the text is whole.
    """

    text: str
    name: str
    values: dict[str, Any] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    originals: dict[str, object] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def source_of(function: FunctionType) -> SourceText | None:
    """Write a function and what it needs as one module."""
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType):
        return None
    writer = _Writer(plain.__globals__, plain.__code__.co_flags & _ANNOTATIONS)
    name = plain.__name__ if plain.__name__.isidentifier() else "program"
    try:
        writer.add_function(function, name)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return SourceText(
        writer.text(), name, writer.values, sorted(writer.modules), writer.originals, writer.missing
    )


def home_of(value: object) -> tuple[str, str] | None:
    """Return from which module something can be imported under its own name, if it can."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module in ("__main__", "builtins"):
        return None
    return (module, name) if getattr(sys.modules.get(module), name, None) is value else None


class _Writer:
    """Collects the parts of the module, what is needed first standing first."""

    def __init__(self, names: Mapping[str, object], flags: int) -> None:
        self.globals = names
        self.flags = flags
        self.imports: dict[str, str] = {}
        self.parts: list[str] = []
        self.values: dict[str, Any] = {}
        self.modules: set[str] = set()
        self.originals: dict[str, object] = {}
        self.missing: list[str] = []
        self._seen: set[str] = set(_OWN)

    def text(self) -> str:
        head = ["from __future__ import annotations"] if self.flags else []
        head += [self.imports[name] for name in sorted(self.imports)]
        return "\n".join(head) + "\n" * bool(head) + "".join(f"\n\n{part}" for part in self.parts)

    def add_function(self, function: FunctionType, name: str) -> None:
        """Write a function under a name, behind what it needs."""
        self._seen.add(name)
        self.originals[name] = function
        plain: Any = inspect.unwrap(function)
        text, defined = _definition(plain, name)
        free = _free_variables(plain)
        for used in _global_names(text, self.flags):
            if used not in free and used in self.globals:
                self.add(used, self.globals[used])
        if free:
            text = self._closed(text, defined, free)
        self.parts.append(text)
        if name != defined:
            self.parts.append(f"{name} = {defined}\n")

    def _closed(self, text: str, name: str, free: Mapping[str, object]) -> str:
        """Wrap a function that was defined in another, so that it finds that one's variables."""
        for variable, value in free.items():
            if variable in self._seen:
                raise SyntaxError(f"{variable} means two things")
            self.add(variable, value)
        arguments = ", ".join(free)
        body = textwrap.indent(text, "    ")
        return f"def _around({arguments}):\n{body}    return {name}\n\n\n{name} = _around({arguments})\n"

    def add(self, name: str, value: object) -> None:
        """Write what a name stands for, unless it is already written."""
        if name in self._seen:
            return
        self._seen.add(name)
        if isinstance(value, ModuleType):
            self._import_module(name, value)
        elif isinstance(value, FunctionType) and value.__globals__ is self.globals:
            self._try(name, value, lambda: self.add_function(value, name))
        elif isinstance(value, type) and value.__module__ == self.globals.get("__name__"):
            self._try(name, value, lambda: self._add_class(value, name))
        elif (home := home_of(value)) is not None:
            module, attribute = home
            self.modules.add(module)
            alias = "" if attribute == name else f" as {name}"
            self.imports[name] = f"from {module} import {attribute}{alias}"
        elif (text := _literal(value)) is not None:
            self.parts.append(f"{name} = {text}\n")
        else:
            self.values[name] = value

    def _try(self, name: str, value: object, write: Callable[[], None]) -> None:
        try:
            write()
        except (OSError, TypeError, SyntaxError, ValueError) as error:
            self.missing.append(f"{name}: the source of this {type(value).__name__} is not found ({error})")

    def _import_module(self, name: str, module: ModuleType) -> None:
        full = module.__name__
        self.modules.add(full)
        if sys.modules.get(full) is not module:
            self.missing.append(f"{name}: the module {full} cannot be imported by its name")
        self.imports[name] = f"import {full}" if full == name else f"import {full} as {name}"

    def _add_class(self, kind: type, name: str) -> None:
        self.originals[name] = kind
        text = _class_text(kind)
        for used in _global_names(text, self.flags):
            if used in self.globals:
                self.add(used, self.globals[used])
        self.parts.append(text)
        if name != kind.__name__:
            self.parts.append(f"{name} = {kind.__name__}\n")


def _class_text(kind: type) -> str:
    """Return the text that defines a class; `inspect` finds none of a notebook's, which has no file.

    Its methods know where they were defined; a class without any is looked for in all cells, newest first.
    """
    methods = [one for one in vars(kind).values() if isinstance(one, FunctionType)]
    names = [one.__code__.co_filename for one in methods]
    cells = [
        name for name, entry in reversed(linecache.cache.items()) if len(entry) == 4 and entry[1] is None
    ]
    for name in [*names, *cells]:
        lines = linecache.getlines(name)
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                return textwrap.dedent("".join(lines[first - 1 : node.end_lineno]).rstrip("\n") + "\n")
    return textwrap.dedent(inspect.getsource(kind))


def _free_variables(function: FunctionType) -> dict[str, object]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells}


def _literal(value: object) -> str | None:
    """Return a value as Python writes it, where that is short and gives the value back."""
    if not isinstance(value, bool | int | float | complex | str | bytes | tuple | list | dict | None):
        return None
    try:
        text = repr(value)
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    is_same = type(read) is type(value) and repr(read) == text
    return text if is_same and len(text) <= _LONGEST_LITERAL else None


def _definition(function: FunctionType, name: str) -> tuple[str, str]:
    """Return the text that defines a function, and what it is called there."""
    text = textwrap.dedent(inspect.getsource(function))
    if function.__name__ == "<lambda>":
        return f"{name} = {_lambda(text, function.__code__)}\n", name
    tree = ast.parse(text)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise SyntaxError("not a separate definition")
    return text if text.endswith("\n") else text + "\n", tree.body[0].name


def _lambda(text: str, code: CodeType) -> str:
    """Find the lambda that has this code; the lines around it may hold others, and be no statement."""
    starts = [found.start() for found in re.finditer(r"\blambda\b", text[:_LONGEST_LITERAL])]
    for start in starts:
        for end in range(min(len(text), start + _LONGEST_LITERAL), start, -1):
            try:
                tree = ast.parse(text[start:end], mode="eval")
            except (SyntaxError, ValueError):
                continue
            if not isinstance(tree.body, ast.Lambda):
                continue
            one = ast.unparse(tree.body)
            made = compile(one, "<lambda>", "eval", dont_inherit=True).co_consts[0]
            if isinstance(made, CodeType) and same_code(made, code):
                return one
            break
    raise SyntaxError("its lines do not hold this lambda")


def _global_names(text: str, flags: int) -> Iterator[str]:
    """Name the globals that a definition uses, when it is executed and when it is called."""
    todo, seen = [compile(text, "<source>", "exec", flags, dont_inherit=True)], set()
    while todo:
        code = todo.pop()
        todo += [const for const in code.co_consts if isinstance(const, CodeType)]
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval not in seen:
                seen.add(step.argval)
                yield str(step.argval)


_ALIKE = (
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_argcount",
    "co_kwonlyargcount",
    "co_posonlyargcount",
    "co_flags",
    "co_name",
)

_UNIMPORTANT = {"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL", "RESUME"}
_SAME_NAME = {"LOAD_METHOD": "LOAD_ATTR", "CALL_METHOD": "CALL"}
_JUMPS = {*dis.hasjabs, *dis.hasjrel}


def executed(text: str, values: Mapping[str, object], name: str = "<bundled>") -> dict[str, Any]:
    """Execute a module's text in a separate namespace, and return that.

    The values stand in it before the text runs, as a definition may need them.
    """
    names: dict[str, object] = {"__name__": "labkit_bundled", **values}
    exec(compile(text, name, "exec", dont_inherit=True), names)
    return names


def difference(text: str, values: Mapping[str, object], originals: Mapping[str, object]) -> str | None:
    """Return as text what a module defines otherwise than the functions and classes it was written from."""
    try:
        names = executed(text, values)
    except Exception as error:  # it is the user's code
        return f"its text cannot be executed alone ({type(error).__name__}: {error})"
    for name, original in originals.items():
        if not _is_same(names.get(name), original):
            return f"{name}: executed again, its text gives another code"
    return None


def same_code(one: CodeType, other: CodeType) -> bool:
    """Whether two codes do the same: equal but for their places in files.

    The compiler writes a call of an imported module's function otherwise when the import stands in the same
    cell or file; that is looked over.
    """
    if any(getattr(one, name) != getattr(other, name) for name in _ALIKE):
        return False
    mine, theirs = list(_steps(one)), list(_steps(other))
    if len(mine) != len(theirs):
        return False
    for (name, value), (other_name, other_value) in zip(mine, theirs, strict=True):
        if name != other_name:
            return False
        if isinstance(value, CodeType) and isinstance(other_value, CodeType):
            if not same_code(value, other_value):
                return False
        elif type(value) is not type(other_value) or repr(value) != repr(other_value):
            return False
    return True


def _steps(code: CodeType) -> Iterator[tuple[str, Any]]:
    """Return a code's instructions with what they mean; jumps by the number of the instruction they reach."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _UNIMPORTANT]
    numbers = {step.offset: number for number, step in enumerate(steps)}
    offsets = sorted(numbers)
    for step in steps:
        value = step.argval
        if step.opcode in _JUMPS:  # what it reaches may be one of those left out
            at = bisect.bisect_left(offsets, value)
            value = numbers[offsets[at]] if at < len(offsets) else len(steps)
        yield _SAME_NAME.get(step.opname, step.opname), value


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, type) and isinstance(other, type):
        mine, theirs = _own(one), _own(other)
        return mine.keys() == theirs.keys() and all(_is_same(mine[k], theirs[k]) for k in mine)
    if isinstance(one, bool | int | float | str | bytes | tuple | None):
        return type(one) is type(other) and repr(one) == repr(other)
    if not isinstance(one, FunctionType) or not isinstance(other, FunctionType):
        return False
    if not same_code(one.__code__, other.__code__) or not _same_defaults(one, other):
        return False
    inner, theirs = inspect.unwrap(one), inspect.unwrap(other)
    return inner is one or theirs is other or _is_same(inner, theirs)


def _own(kind: type) -> dict[str, Any]:
    """Return a class's methods and constants."""
    plain = (FunctionType, bool, int, float, str, bytes, tuple)
    hidden = ("__module__", "__qualname__", "__firstlineno__", "__static_attributes__")
    return {name: one for name, one in vars(kind).items() if isinstance(one, plain) and name not in hidden}


def _same_defaults(one: FunctionType, other: FunctionType) -> bool:
    return repr(one.__defaults__) == repr(other.__defaults__) and repr(one.__kwdefaults__) == repr(
        other.__kwdefaults__
    )
