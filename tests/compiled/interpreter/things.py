"""Classes that the functions of the language use."""

# ruff: noqa (what a linter would write otherwise is what is tried here)


class Thing:
    """Has attributes, items, a property and class attributes."""

    kind = "thing"

    def __init__(self, value):
        self.value = value
        self.items = {}

    def __getitem__(self, key):
        return self.items[key]

    def __setitem__(self, key, value):
        self.items[key] = value

    def __delitem__(self, key):
        del self.items[key]

    def __len__(self):
        return len(self.items)

    def __contains__(self, key):
        return key in self.items

    def __call__(self, *args, **kwargs):
        return self.value, args, kwargs

    @property
    def double(self):
        return self.value * 2

    @double.setter
    def double(self, new):
        self.value = new / 2

    @classmethod
    def of(cls, value):
        return cls(value)

    @staticmethod
    def half(value):
        return value / 2

    def plus(self, more):
        return self.value + more


class Other(Thing):
    """Calls what it inherits."""

    kind = "other"

    def __init__(self, value):
        super().__init__(value)
        self.more = super().plus(1)

    def plus(self, more):
        return super().plus(more) * 2 + super(Other, self).plus(1)

    @property
    def double(self):
        return super().double + 1

    @classmethod
    def of(cls, value):
        return super().of(value + 1)

    def held(self):
        above = super()
        return above.plus(2)

    def listed(self):
        return [one + self.value for one in (super(Other, self).plus(3),)]
