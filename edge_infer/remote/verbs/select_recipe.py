"""``select_recipe``: another named set of settings, between two parts."""

from __future__ import annotations

from edge_infer.messages.command import SelectRecipe
from edge_infer.remote.answer import Answer
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach


def select_recipe(request: SelectRecipe, command: Command, reach: Reach) -> Answer:
    """Stored and in force when it is answered."""
    reach.control.select_recipe(command.at, request.recipe_id, by=command.by)
    what = f"the recipe {request.recipe_id} runs" if request.recipe_id else "the station's own settings run"
    return Answer("ok", "done", what, {"recipeId": request.recipe_id})
