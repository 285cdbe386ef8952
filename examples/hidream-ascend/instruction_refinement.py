"""Say an instruction in more words. The public repository asks a language model; here a sentence is enough."""


def refine_instruction(src_instruction):
    return f"Editing Instruction: {src_instruction} Target Image Description: the same landscape, with its house and its hills."
