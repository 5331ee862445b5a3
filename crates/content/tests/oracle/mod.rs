//! What html5ever makes of a page, scripting off: its elements in the order of their tags, the title
//! and the base. A tree is built only as far as html5ever needs one to steer its tokenizer.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, QualName, ns};

/// An element as its start tag made it.
#[derive(Debug, Clone)]
pub struct Element {
    pub name: String,
    pub is_svg: bool,
    pub is_html: bool,
    pub attributes: Vec<(String, String)>,
    /// Inside a TEMPLATE.
    pub inert: bool,
    /// The tree builder made nothing of the tag.
    pub dropped: bool,
}

impl Element {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }
}

pub struct Parsed {
    pub elements: Vec<Element>,
    pub title: Option<String>,
}

pub fn parse(page: &str) -> Parsed {
    let opts = TreeBuilderOpts {
        scripting_enabled: false,
        ..Default::default()
    };
    let sink = Sink {
        builder: TreeBuilder::new(Tree::new(), opts),
        made: RefCell::default(),
    };
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from(page));
    // A script's end hands control back; nothing runs, so it simply goes on.
    while !queue.is_empty() {
        let _ = tokenizer.feed(&queue);
    }
    tokenizer.end();
    let Sink { builder, made } = tokenizer.sink;
    let tree = &builder.sink;
    let elements = made.into_inner().into_iter().map(|made| {
        let inert = made
            .node
            .map_or(made.element.inert, |node| tree.is_inert(node));
        Element {
            inert,
            ..made.element
        }
    });
    Parsed {
        elements: elements.collect(),
        title: tree.title(),
    }
}

/// Passes tokens on to the tree builder and notes which element each start tag became.
struct Sink {
    builder: TreeBuilder<usize, Tree>,
    made: RefCell<Vec<Made>>,
}

struct Made {
    element: Element,
    node: Option<usize>,
}

impl TokenSink for Sink {
    type Handle = usize;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<usize> {
        let tag = match &token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => Some(tag.clone()),
            Token::TagToken(tag) if *tag.name == *"template" => {
                let open = &self.builder.sink.open_templates;
                open.set(open.get().saturating_sub(1));
                None
            }
            _ => None,
        };
        let before = self.builder.sink.nodes.borrow().len();
        let result = self.builder.process_token(token, line);
        let Some(tag) = tag else { return result };
        let name = if *tag.name == *"image" {
            "img"
        } else {
            &*tag.name
        };
        let nodes = self.builder.sink.nodes.borrow();
        // Copies of elements left open come first, the element of the tag itself last.
        let node = (before..nodes.len()).rev().find(|&node| {
            let found = nodes[node].name.as_ref().map(|found| &*found.local);
            found.is_some_and(|found| found.eq_ignore_ascii_case(name) || *found == *tag.name)
        });
        let kind = |wanted| match node {
            Some(node) => nodes[node]
                .name
                .as_ref()
                .is_some_and(|name| name.ns == wanted),
            None => wanted == ns!(html),
        };
        let attributes = tag.attrs.iter();
        let element = Element {
            name: tag.name.to_string(),
            is_svg: kind(ns!(svg)),
            is_html: kind(ns!(html)),
            attributes: attributes
                .map(|a| (a.name.local.to_string(), a.value.to_string()))
                .collect(),
            // For a tag that was dropped; the others are looked up in the tree at the end.
            inert: self.builder.sink.open_templates.get() > 0,
            dropped: node.is_none(),
        };
        self.made.borrow_mut().push(Made { element, node });
        result
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder
            .adjusted_current_node_present_but_not_in_html_namespace()
    }
}

#[derive(Default)]
struct Node {
    name: Option<QualName>,
    parent: Option<usize>,
    children: Vec<usize>,
    text: String,
    contents: Option<usize>,
    is_contents: bool,
    html_annotation: bool,
}

struct Tree {
    nodes: RefCell<Vec<Node>>,
    /// Names live outside the nodes because the builder asks for them by reference.
    names: RefCell<Vec<Option<&'static QualName>>>,
    open_templates: Cell<usize>,
}

impl Tree {
    fn new() -> Tree {
        let tree = Tree {
            nodes: RefCell::default(),
            names: RefCell::default(),
            open_templates: Cell::default(),
        };
        tree.add(Node::default());
        tree
    }

    fn add(&self, node: Node) -> usize {
        // Leaked: a test's few pages, and the builder's borrows stay simple.
        let name = node.name.clone().map(|name| &*Box::leak(Box::new(name)));
        self.names.borrow_mut().push(name);
        self.nodes.borrow_mut().push(node);
        self.nodes.borrow().len() - 1
    }

    fn is_inert(&self, node: usize) -> bool {
        let nodes = self.nodes.borrow();
        let mut node = Some(node);
        while let Some(at) = node {
            if nodes[at].is_contents {
                return true;
            }
            node = nodes[at].parent;
        }
        false
    }

    /// The text of the first TITLE of the document, white space collapsed.
    fn title(&self) -> Option<String> {
        let nodes = self.nodes.borrow();
        let is_title = |node: &Node| {
            node.name
                .as_ref()
                .is_some_and(|name| name.ns == ns!(html) && *name.local == *"title")
        };
        let title = (0..nodes.len()).find(|&at| is_title(&nodes[at]) && !self.is_inert(at))?;
        let text = &nodes[title].text;
        let words = text
            .split(|c: char| c.is_ascii_whitespace())
            .filter(|word| !word.is_empty());
        Some(words.collect::<Vec<_>>().join(" "))
    }

    fn detach(&self, child: usize) -> Option<usize> {
        let mut nodes = self.nodes.borrow_mut();
        let parent = nodes[child].parent.take()?;
        nodes[parent].children.retain(|&found| found != child);
        Some(parent)
    }

    fn insert(&self, parent: usize, at: Option<usize>, child: NodeOrText<usize>) {
        match child {
            NodeOrText::AppendNode(child) => {
                self.detach(child);
                let mut nodes = self.nodes.borrow_mut();
                nodes[child].parent = Some(parent);
                let at = at.unwrap_or(nodes[parent].children.len());
                let at = at.min(nodes[parent].children.len());
                nodes[parent].children.insert(at, child);
            }
            NodeOrText::AppendText(text) => self.nodes.borrow_mut()[parent].text.push_str(&text),
        }
    }
}

impl TreeSink for Tree {
    type Handle = usize;
    type Output = ();
    type ElemName<'a> = &'a QualName;

    fn finish(self) {}

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> usize {
        0
    }

    fn elem_name<'a>(&'a self, target: &'a usize) -> &'a QualName {
        self.names.borrow()[*target].expect("an element")
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> usize {
        let contents = flags.template.then(|| {
            self.add(Node {
                is_contents: true,
                ..Node::default()
            })
        });
        let _ = attrs;
        let html_annotation = flags.mathml_annotation_xml_integration_point;
        let node = self.add(Node {
            name: Some(name),
            contents,
            html_annotation,
            ..Node::default()
        });
        if let Some(contents) = contents {
            self.open_templates.set(self.open_templates.get() + 1);
            self.nodes.borrow_mut()[contents].parent = Some(node);
        }
        node
    }

    fn create_comment(&self, _text: StrTendril) -> usize {
        self.add(Node::default())
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> usize {
        self.add(Node::default())
    }

    fn append(&self, parent: &usize, child: NodeOrText<usize>) {
        self.insert(*parent, None, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &usize,
        previous: &usize,
        child: NodeOrText<usize>,
    ) {
        let has_parent = self.nodes.borrow()[*element].parent.is_some();
        if has_parent {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &usize) -> usize {
        self.nodes.borrow()[*target].contents.expect("a template")
    }

    fn same_node(&self, x: &usize, y: &usize) -> bool {
        x == y
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &usize, child: NodeOrText<usize>) {
        let nodes = self.nodes.borrow();
        let parent = nodes[*sibling].parent.expect("a sibling in the tree");
        let at = nodes[parent]
            .children
            .iter()
            .position(|found| found == sibling);
        drop(nodes);
        self.insert(parent, at, child);
    }

    fn add_attrs_if_missing(&self, _target: &usize, _attrs: Vec<Attribute>) {}

    fn remove_from_parent(&self, target: &usize) {
        self.detach(*target);
    }

    fn reparent_children(&self, node: &usize, new_parent: &usize) {
        let children = self.nodes.borrow()[*node].children.clone();
        for child in children {
            self.insert(*new_parent, None, NodeOrText::AppendNode(child));
        }
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &usize) -> bool {
        self.nodes.borrow()[*handle].html_annotation
    }
}
