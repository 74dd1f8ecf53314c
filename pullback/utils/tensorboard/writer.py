"""SummaryWriter: writes a run's numbers, images and texts to a folder that tensorboard shows."""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime
from importlib import import_module
from typing import Any

from pullback.core.explain.absent import refusing
from pullback.utils.tensorboard import summary

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """One file of events."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        module: Any = import_module("tensorboard.summary.writer.event_file_writer")
        self._event: Any = import_module("tensorboard.compat.proto.event_pb2").Event
        self._writer = module.EventFileWriter(
            os.fspath(log_dir), max_queue, flush_secs, filename_suffix
        )

    def get_logdir(self) -> str:
        """The folder."""
        folder: str = self._writer.get_logdir()
        return folder

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event, of now and of this step."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self._writer.add_event(event)

    def add_summary(self, message: Any, global_step: Any = None, walltime: Any = None) -> None:
        """Write a summary."""
        self.add_event(self._event(summary=message), global_step, walltime)

    def flush(self) -> None:
        """Write to disk what waits."""
        self._writer.flush()

    def close(self) -> None:
        """Write to disk what waits, and close the file."""
        self._writer.close()


class SummaryWriter:
    """Logs to a folder, by default `runs/<time>_<host><comment>`.

    What a tensor has at the time of the call is written. `add_graph`, `add_embedding`, `add_mesh`,
    `add_video` and `add_audio` are refused.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step = purge_step
        self._options = max_queue, flush_secs, filename_suffix
        self._writers: dict[str, FileWriter] = {}
        self._begin(purge_step)

    @property
    def file_writer(self) -> FileWriter:
        """The file in the folder itself; made again after `close()`."""
        return self._writer_of("")

    def _writer_of(self, run: str) -> FileWriter:
        if run not in self._writers:
            folder = os.path.join(self.log_dir, run) if run else self.log_dir
            self._writers[run] = FileWriter(folder, *self._options)
        return self._writers[run]

    def _begin(self, purge_step: int | None) -> None:
        writer = self.file_writer
        if purge_step is not None:  # a run that crashed goes on from there
            log: Any = import_module("tensorboard.compat.proto.event_pb2")
            start = log.SessionLog(status=log.SessionLog.START)
            writer.add_event(log.Event(step=purge_step, file_version="brain.Event:2"))
            writer.add_event(log.Event(step=purge_step, session_log=start))

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, message: Any, step: Any, walltime: Any, run: str = "") -> None:
        self._writer_of(run).add_summary(message, step, walltime)

    # Numbers ------------------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number, at a step."""
        message = summary.scalar(tag, scalar_value, new_style=new_style, double=double_precision)
        self._add(message, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers in one chart; each is a run of its own, in a folder below."""
        for tag, value in tag_scalar_dict.items():
            run = f"{main_tag.replace('/', '_')}_{tag}"
            self._add(summary.scalar(main_tag, value), global_step, walltime, run)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """All elements of a tensor."""
        self._add(summary.tensor(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are distributed."""
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall of predictions from 0 to 1."""
        message = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(message, global_step, walltime)

    # Images and texts ---------------------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """An image: floats from 0 to 1, or bytes."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """A batch of images, side by side."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or a list of them."""
        agg: Any = import_module("matplotlib.backends.backend_agg")
        pixels = []
        for one in figure if isinstance(figure, list) else [figure]:
            canvas = agg.FigureCanvasAgg(one)
            canvas.draw()
            pixels.append(summary.as_array(canvas.buffer_rgba())[..., :3])
            if close:
                import_module("matplotlib.pyplot").close(one)
        self._add(summary.image(tag, pixels, "NHWC"), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A text, shown as Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    # Runs ---------------------------------------------------------------------------------------

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """The parameters of a run with its results, in a folder below."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("add_hparams: parameters and results must be dicts.")
        run = run_name or str(time.time())
        for message in summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete):
            self._add(message, None, None, run)
        for name, value in metric_dict.items():
            self._add(summary.scalar(name, value), global_step, None, run)

    def flush(self) -> None:
        """Write to disk what waits."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Write to disk what waits, and close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    add_graph = refusing("utils.tensorboard.SummaryWriter.add_graph")
    add_embedding = refusing("utils.tensorboard.SummaryWriter.add_embedding")
    add_mesh = refusing("utils.tensorboard.SummaryWriter.add_mesh")
    add_video = refusing("utils.tensorboard.SummaryWriter.add_video")
    add_audio = refusing("utils.tensorboard.SummaryWriter.add_audio")
